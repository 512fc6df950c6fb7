
find_runtime() { :; }

staged_image() { :; }

# The node's own name stays; the variable is the Pod's.
own_hostname() {
	staged "$dir/hostname"
	[[ ! ${words[0]} ]] || env=("HOSTNAME=${words[0]}" "${env[@]}")
}

examine() { :; }

# No container: the command itself, in an environment of its own.
container_words() {
	local entry base=()
	for entry in PATH LD_LIBRARY_PATH HOME USER LOGNAME; do
		[[ ! ${!entry+x} ]] || base+=("$entry=${!entry}")
	done
	cd "${workdir:-/}" || exit 1
	[[ ${argv[0]} != *=* ]] || argv=(sh -c 'exec "$@"' sh "${argv[@]}")
	words=(env -i -- "${base[@]}" "${env[@]}" "${argv[@]}")
}
