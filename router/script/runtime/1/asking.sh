
# Probes and hooks over the network, which is the node's. What is sent stays out of words that others can see.
run_tcp() { # SECONDS HOST PORT
	# shellcheck disable=SC2016
	exec timeout -s KILL "$1" /bin/bash -c 'exec 3<>"/dev/tcp/$1/$2"' tcp "$2" "$3" 8>&- 4>&-
}

run_http() { # SECONDS HOST PORT REQUEST [any]
	export BATCHGATE_REQUEST=$4
	exec timeout -s KILL "$1" /bin/bash -c "$(declare -f ask_http judge_answer); ask_http \"\$@\"" http "$2" "$3" "${5:-}" 8>&- 4>&-
}

run_https() { # SECONDS REQUEST, for curl, [any]
	export BATCHGATE_REQUEST=$2
	exec timeout -s KILL "$1" /bin/bash -c "$(declare -f ask_https judge_answer); ask_https \"\$@\"" https "${3:-}" 8>&- 4>&-
}

ask_http() { # HOST PORT [any]
	local line LC_ALL=C
	exec 3<>"/dev/tcp/$1/$2" || exit
	printf %s "$BATCHGATE_REQUEST" >&3
	IFS= read -r -n 200 line <&3
	[[ $line =~ ^HTTP/[0-9.]+\ ([0-9][0-9][0-9]) ]] || { echo 'no answer of HTTP' && exit 1; }
	judge_answer "${BASH_REMATCH[1]}" "$3"
}

ask_https() { # [any]
	local code
	code=$(curl -q -K - <<<"$BATCHGATE_REQUEST") || exit
	judge_answer "$code" "$1"
}

judge_answer() { # CODE [any]
	[[ ! $2 ]] || exit 0
	[[ $1 != [23][0-9][0-9] ]] || exit 0
	echo "HTTP probe failed with statuscode: $1"
	exit 1
}
