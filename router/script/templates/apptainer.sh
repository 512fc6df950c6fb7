
find_runtime() {
	local found
	found=$(type -P "$runtime") || refuse 127 "there is no $runtime on $HOSTNAME; PATH is $PATH"
	runtime=$found
}

# Each container has a /tmp of its own, on the node.
own_tmp() {
	[[ ! -e $scratch/$name.tmp ]] || rm -rf "$scratch/$name.tmp" # of an earlier run: a container starts from its image
	mkdir -m 1777 "$scratch/$name.tmp"
	mount "$scratch/$name.tmp" /tmp
	mount "$scratch/$name.tmp" /var/tmp
}

mount() {
	local from=$1 to=$2
	case $from$to in
	*[,:\"\\]*) # what --bind would cut apart; --mount reads CSV
		binds+=(--mount "type=bind,\"source=${from//\"/\"\"}\",\"destination=${to//\"/\"\"}\"${3:+,$3}")
		;;
	*) binds+=(--bind "$from:$to${3:+:$3}") ;;
	esac
}

# The words that run the loaded container; its variables go into the environment.
container_words() {
	local entry key value inside=() verb='exec'
	# shellcheck disable=SC2086
	unset ${!APPTAINERENV_@} ${!SINGULARITYENV_@}
	for entry in "${env[@]}"; do
		key=${entry%%=*}
		case $key in
		HOME | UID | EUID | GID | '' | [!A-Za-z_]* | *[!A-Za-z0-9_]*) inside+=("$entry") ;; # the runtime cannot set these
		*)
			value=${entry#*=}
			if [[ $evaluates ]]; then # a runtime before --no-eval reads values as shell text
				value=${value//\\/\\\\} value=${value//\$/\\\$} value=${value//\`/\\\`}
			fi
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
