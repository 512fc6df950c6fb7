
# Without a container: a command of a hook or probe is one as the container's own.
find_container() { [[ -s $scratch/$name.pid ]]; }

run_exec() { # SECONDS WORD...
	local limit=$1 given=("${@:2}")
	load "$i"
	argv=("${given[@]}")
	container_words
	exec timeout -s KILL "$limit" "${words[@]}" 8>&- 4>&-
}
