
# Probes and hooks over the network, which is the node's. What is sent stays out of words that others can see.
run_tcp() { # SECONDS HOST PORT
	# shellcheck disable=SC2016
	exec timeout -s KILL "$1" /bin/bash -c 'exec 3<>"/dev/tcp/$1/$2"' tcp "$2" "$3" 8>&- 4>&-
}

run_http() { run_web http "$@"; }
run_https() { run_web https "$@"; }

run_web() { # SCHEME SECONDS HOST PORT REQUEST [any]
	export BATCHGATE_REQUEST=$5
	exec timeout -s KILL "$2" /bin/bash -c "$(declare -f ask_web ask_http ask_https for_curl sent_on judge_answer); ask_web \"\$@\"" web "$1" "$3" "$4" "${6:-}" 8>&- 4>&-
}

# As a kubelet: sent on to the same host it asks again, ten times in all; an answer that sends elsewhere counts as it is.
ask_web() { # SCHEME HOST PORT [any]
	local scheme=$1 host=$2 port=$3 request=$BATCHGATE_REQUEST code location LC_ALL=C
	for _ in {1..10}; do
		code='' location=''
		"ask_$scheme"
		if [[ $code != 30[12378] ]] || ! sent_on; then judge_answer "$code" "$4"; fi
	done
	echo 'stopped after 10 redirects'
	exit 1
}

ask_http() {
	local line
	exec 3<>"/dev/tcp/$host/$port" || exit
	printf %s "$request" >&3
	IFS= read -r -n 200 line <&3
	[[ $line =~ ^HTTP/[0-9.]+\ ([0-9][0-9][0-9]) ]] || { echo 'no answer of HTTP' && exit 1; }
	code=${BASH_REMATCH[1]}
	[[ $code == 30[12378] ]] || return 0
	while IFS= read -r -n 4096 line <&3; do
		line=${line%$'\r'}
		[[ $line ]] || break
		[[ ${line,,} == location:* ]] || continue
		location=${line#*:}
		location=${location#"${location%%[! ]*}"}
		break
	done
}

ask_https() {
	type -P curl >/dev/null || { echo "the server sends on to HTTPS, and there is no curl on $HOSTNAME" && exit 1; }
	code=$(curl -q -K - < <(for_curl)) || exit
	location=${code#* } code=${code%% *}
}

# A file of options. Certificates are not checked, as by a kubelet.
for_curl() {
	local path=${request#* } line=$host
	[[ $host != *:* ]] || line=[$host]
	line=https://$line:$port${path%% *}
	line=${line//\\/\\\\}
	printf '%s\n' insecure silent show-error globoff path-as-is 'output = "/dev/null"' 'noproxy = "*"' \
		'write-out = "%{http_code} %{redirect_url}"' "url = \"${line//\"/\\\"}\""
	while IFS= read -r line; do
		line=${line%$'\r'}
		[[ $line ]] || break
		[[ ${line#*: } ]] || line="${line%: };"
		line=${line//\\/\\\\}
		printf 'header = "%s"\n' "${line//\"/\\\"}"
	done <<<"${request#*$'\n'}"
}

# Sets what to ask next, by $location; fails where that is another host, or no address.
sent_on() {
	local to=${location%%#*} path=${request#* } next here=$host:$port
	local address='^([Hh][Tt][Tt][Pp][Ss]?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:([0-9]{1,5}))?([/?].*)?$'
	path=${path%%[? ]*}
	[[ $host != *:* ]] || here=[$host]:$port
	case $to in
	'' | *[[:cntrl:]]*) return 1 ;;
	[Hh][Tt][Tt][Pp]*://*) ;;
	//*) to=$scheme:$to ;;
	/*) to=$scheme://$here$to ;;
	\?*) to=$scheme://$here$path$to ;;
	*) to=$scheme://$here${path%/*}/$to ;;
	esac
	[[ $to =~ $address ]] || return
	next=${BASH_REMATCH[2]#[}
	[[ ${next%]} == "$host" ]] || return
	scheme=${BASH_REMATCH[1],,} port=${BASH_REMATCH[4]} path=${BASH_REMATCH[5]}
	[[ $port ]] || case $scheme in http) port=80 ;; https) port=443 ;; esac
	[[ $path == /* ]] || path=/$path
	# A Host that the Job names stays.
	request="GET ${path// /%20} ${request#* * }"
	request=${request/$'\r\n'"Host: $here"$'\r\n'/$'\r\n'"Host: ${here%:*}:$port"$'\r\n'}
}

judge_answer() { # CODE [any]
	[[ ! $2 ]] || exit 0
	[[ $1 != 3[0-9][0-9] ]] || echo 'Probe terminated redirects'
	[[ $1 != [23][0-9][0-9] ]] || exit 0
	echo "HTTP probe failed with statuscode: $1"
	exit 1
}
