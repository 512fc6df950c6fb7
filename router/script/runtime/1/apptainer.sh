
find_runtime() {
	local found
	found=$(type -P "$runtime") || refuse 127 "there is no $runtime on $HOSTNAME; PATH is $PATH"
	runtime=$found
	names_hosts || doubt=',"reason":"NodeHostname"'
}

# Whether containers can have the Pod's host name, for which they need a namespace.
names_hosts() {
	local most=1 conf address
	own_name=''
	staged "$dir/hostname"
	[[ ${words[0]} ]] || return 0
	{ read -r most </proc/sys/user/max_uts_namespaces; } 2>/dev/null
	((most > 0)) || return 1
	conf=$("$runtime" buildcfg 2>/dev/null | sed -n 's/^[A-Z]*_CONF_FILE=//p')
	! grep -qsE '^[[:space:]]*allow uts ns[[:space:]]*=[[:space:]]*no' "${conf:-/}" || return 1
	## Programs look their own name up: it is the node's address.
	read -r address _ < <(timeout 5 getent ahosts "$HOSTNAME")
	{
		cat /etc/hosts
		echo "${address:-127.0.0.1}" "${words[@]:1}"
	} >"$scratch/hosts.own" 2>/dev/null
	own_name=${words[0]}
}

own_hostname() {
	staged "$dir/hostname"
	[[ ${words[0]} ]] || return 0
	image_env=("HOSTNAME=${words[0]}" "${image_env[@]}")
	[[ $own_name ]] || return 0
	options+=(--hostname "$own_name")
	[[ " ${binds[*]} " == *[:\"]/etc/hosts[:\"\ ]* ]] || binds+=(--bind "$scratch/hosts.own:/etc/hosts")
}

staged_image() {
	local entry
	declare -gA known=()
	staged "$dir/image/$name"
	for entry in "${words[@]}"; do known[${entry%%=*}]=${entry#*=}; done
	image=${known[path]:-$image} workdir=${workdir:-${known[workdir]}} command=${command:-${known[command]}}
	[[ ! ${known[source]} ]] || pull_first
	staged "$dir/image-env/$name"
	image_env=("${words[@]}")
}

# A /tmp of its own, on the node.
own_tmp() { mount_tmp "$scratch/$name.tmp"; }

mount_tmp() {
	tmp=$1
	rm -rf "$tmp" # an earlier run's
	mkdir -m 1777 "$tmp"
	mount "$tmp" /tmp
	mount "$tmp" /var/tmp
}

# PATH: the container's file for its last word. Below /dev, which is the node's, only where the node has one.
message() {
	[[ $1 != /dev/* || -f $1 ]] || return 0
	mkdir -p "$dir/message" && : >"$dir/message/$name"
	if [[ $tmp && $1 =~ ^(/var)?/tmp/(.+) ]]; then
		mkdir -p "$(dirname -- "$tmp/${BASH_REMATCH[2]}")"
		: >"$tmp/${BASH_REMATCH[2]}"
	fi
	mount "$dir/message/$name" "$1"
}

mount() {
	local from=$1 to=$2
	case $from$to in
	*[,:\"\\]*) # --bind would cut these; --mount reads CSV
		binds+=(--mount "type=bind,\"source=${from//\"/\"\"}\",\"destination=${to//\"/\"\"}\"${3:+,$3}")
		;;
	*) binds+=(--bind "$from:$to${3:+:$3}") ;;
	esac
}

## The words that run the container; its variables go into the environment.
container_words() {
	local entry key value inside=() verb='exec'
	unset ${!APPTAINERENV_@} ${!SINGULARITYENV_@}
	read -r value </proc/sys/kernel/hostname # for ranks that keep their node's name
	export "${env_prefix}HOSTNAME=$value"
	[[ $image == docker://* ]] || unset TERM {HTTP,HTTPS,FTP,ALL,NO}_PROXY {http,https,ftp,all,no}_proxy # else passed
	for entry in "${image_env[@]}" "${env[@]}"; do
		key=${entry%%=*}
		[[ $entry != HOME= ]] || continue # an empty one counts as none, as in the cloud
		case $key in
		HOME | UID | EUID | GID | '' | [!A-Za-z_]* | *[!A-Za-z0-9_]*) inside+=("$entry") ;; # it cannot set these
		*)
			value=${entry#*=}
			[[ ! $evaluates ]] || as_shell_text
			export "$env_prefix$key=$value"
			;;
		esac
	done
	[[ $command ]] || verb='run'
	if [[ ${inside[*]} ]]; then
		[[ $command ]] || argv=(/.singularity.d/runscript "${argv[@]}")
		[[ ${argv[0]} != *=* ]] || argv=(sh -c 'exec "$@"' sh "${argv[@]}")
		argv=(env -- "${inside[@]}" "${argv[@]}")
		verb='exec'
	fi
	words=("$runtime" --quiet "$verb" "${options[@]}" "${binds[@]}" ${workdir:+--pwd "$workdir"} "$image" "${argv[@]}")
}

last_words() { tail -c 8192 | sed -n 's/^\(\x1b\[[0-9;]*m\)*\(FATAL:   \|ERROR  : \)//p' | tail -n 1; }

## Starts the container where no program can run. As root with its privileges the runtime cannot load the filter.
try() {
	local argv=("$@")
	container_words
	timeout --foreground -k 5 60 "${words[@]:0:3}" --no-privs --security "seccomp:$scratch/$name.filter" "${words[@]:3}" 2>&1
}

## With too little memory the runtime itself dies at its start, as Go does, in its first words, or without any.
examine_death() {
	local said again limit
	said=$(head -c 8192 "$2" | grep -a -m 1 -E '^(fatal error: |runtime/cgo: pthread_create failed)')
	[[ $said || ($code != 2 && ! -s $2) ]] || return 0
	for again in 1 2 3; do # at the limit it may start now and then
		(
			load "$1"
			command=1 try "/$token" >/dev/null
		)
		case $? in
		2 | 134 | 139)
			limit=$(ulimit -d)
			[[ $limit == unlimited ]] || limit="$limit KiB of data, ulimit -d"
			because "the container runtime died at its start: ${said:-it said nothing} (memory: $limit)"
			code=126
			return
			;;
		esac
	done
}

# Why container $1 was not started: the end of log $2, where it fails so again.
examine() {
	local said again reason=''
	why=$(cat "$scratch/$name.why" 2>/dev/null && rm "$scratch/$name.why")
	case $code in 1 | 2 | 134 | 139 | 255) ;; *) return 0 ;; esac
	echo '{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["execve"],"action":"SCMP_ACT_ERRNO"}]}' >"$scratch/$name.filter"
	if [[ $code != 1 && $code != 255 ]]; then
		examine_death "$@"
		return
	fi
	said=$(last_words <"$2") && [[ $said ]] || return 0
	again=$(
		load "$1"
		command=1 try "/$token" | grep -q seccomp || try "${argv[@]}" | last_words # it warns where it has none
	)
	again=${again/failed: *operation not permitted/failed: }
	[[ $again && ${said//[0-9]/} == "${again//[0-9]/}"* ]] || return 0
	case $said in
	*' not found in $PATH' | 'stat '*) code=127 ;;
	'Unable to handle '*) code=125 reason=ErrImagePull ;;
	*) code=126 ;;
	esac
	because "$said" "$reason"
}
