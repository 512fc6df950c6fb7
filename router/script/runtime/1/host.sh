
find_runtime() { :; }

staged_image() { :; }

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
