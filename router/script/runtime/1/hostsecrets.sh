
# No container, and values of Secrets in no command line: what is staged is read by a shell. Its own integers go before, as
# it computes what they are set to, and runs $(...) in it.
container_words() {
	local entry base=() literal=()
	for entry in PATH LD_LIBRARY_PATH HOME USER LOGNAME; do
		[[ ! ${!entry+x} ]] || base+=("$entry=${!entry}")
	done
	cd "${workdir:-/}" || exit 1
	staged "$dir/env/$name"
	literal=("${env[@]:0:${#env[@]}-${#words[@]}-${#own[@]}}" "${own[@]}")
	words=(env -i -- "${base[@]}" "${literal[@]}" /bin/bash -c 'mapfile -d "" -t MAPFILE 2>/dev/null <"$0" &&
		unset -v RANDOM SRANDOM HISTCMD OPTIND && export -- "${MAPFILE[@]}"; unset MAPFILE; exec -- "$@"' "$dir/env/$name" "${argv[@]}")
}
