
# A resolv.conf of the Pod's own: what it names, with what the node's has unless the Pod wants that alone.
resolving() { # ALONE SERVERS SEARCHES OPTIONS, each of the last three as words
	local word rest entry file=$scratch/$name.resolv servers=() searches=() options_there=()
	[[ " ${binds[*]} " != *[:\"]/etc/resolv.conf[:\"\ ]* ]] || return 0
	[[ $(type -t several_nodes) != function ]] || ! several_nodes || file=$dir/$name.resolv
	if [[ ! $1 ]]; then
		while read -r word rest || [[ $word ]]; do
			case $word in
			nameserver) servers+=("${rest%% *}") ;;
			search | domain) read -r -a searches <<<"$rest" ;; # the last of them counts
			options)
				read -r -a rest <<<"$rest"
				options_there+=("${rest[@]}")
				;;
			esac
		done </etc/resolv.conf
	fi
	for word in $2; do add_once servers "$word"; done
	for word in $3; do add_once searches "$word"; done
	for word in $4; do
		for entry in "${!options_there[@]}"; do
			[[ ${options_there[entry]%%:*} != "${word%%:*}" ]] || unset "options_there[entry]" # the Pod's own wins
		done
		options_there+=("$word")
	done
	{
		for word in "${servers[@]:0:3}"; do echo "nameserver $word"; done # no more are read
		[[ ! ${searches[*]} ]] || echo "search ${searches[*]:0:32}"
		[[ ! ${options_there[*]} ]] || echo "options ${options_there[*]}"
	} >"$file"
	binds+=(--bind "$file:/etc/resolv.conf")
}

add_once() { # ARRAY WORD
	case $1 in
	servers) [[ " ${servers[*]} " == *" $2 "* ]] || servers+=("$2") ;;
	searches) [[ " ${searches[*]} " == *" $2 "* ]] || searches+=("$2") ;;
	esac
}
