
# A command of a hook or probe runs in the namespaces of its container, by nsenter: no container is started for it.
# Finds what of container $1, started as process $2, is within: fails until its program runs, with 2 where none may enter.
find_container() {
	local root roots=("$2") starter='' program='' child kind
	inner='' inner_path=''
	read -r kind <"$scratch/$name.pid" && [[ $kind == "$2" ]] || return 1 # another container looks into the image before
	[[ $1 != "${mpi:-}" ]] || find_ranks
	for root in "${roots[@]}"; do
		starter=''
		! find_inner "$root" || break
	done
	[[ $starter ]] || return 1
	[[ -e $starter/ns/mnt ]] || [[ ! -d $starter ]] || return 2
	[[ $inner ]] || return 1
	# By the names of their files: outside of it nobody may look at an image that a user has mounted.
	starter=$(readlink "$starter/exe")
	for child in "$inner" $(children_of "$inner"); do # the first is the program, or the runtime's own
		kind=$(readlink "/proc/$child/exe")
		[[ ! $kind || $kind == "$starter" || $program ]] || program=$child
	done
	[[ $program ]] || return 1
	((!EUID)) || [[ ! /proc/$inner/ns/user -ef /proc/self/ns/user ]] || return 2
	staged "/proc/$program/environ"
	environment=("${words[@]}")
	enter=(--target "$inner")
	for kind in user:user mnt:mount pid:pid uts:uts ipc:ipc net:net cgroup:cgroup; do
		[[ /proc/$inner/ns/${kind%:*} -ef /proc/self/ns/${kind%:*} ]] || enter+=("--${kind#*:}")
	done
	[[ " ${enter[*]} " != *' --user '* ]] || enter+=(--preserve-credentials)
	inner_path=$(readlink "/proc/$inner/cwd")
	if [[ $(nsenter --help) == *--wdns* ]]; then
		enter+=("--wdns=$inner_path") inner_path=''
	elif [[ -r /proc/$inner/cwd/. ]]; then
		enter+=(--wd) inner_path=''
	fi
}

children_of() { cat /proc/"$1"/task/*/children 2>/dev/null; }

# The runtime's own process is in a place of its own too, with the programs that mount images; below it is the container.
find_inner() { # PID
	local child comm=''
	{ read -r comm <"/proc/$1/comm"; } 2>/dev/null
	if [[ $comm == starter* ]]; then
		starter=/proc/$1
		[[ -e /proc/$1/ns/mnt ]] || return 0 # with setuid it is not to be looked at
	fi
	for child in $(children_of "$1"); do
		if [[ ! $starter ]]; then
			! find_inner "$child" || return 0
		elif [[ -e /proc/$child/ns/mnt && ! /proc/$child/ns/mnt -ef $starter/ns/mnt ]]; then
			inner=$child
			return
		fi
	done
	return 1
}

# A launcher's ranks on this node need not be its children. Another user's processes may look like them.
find_ranks() {
	local file shell script
	for file in /proc/[0-9]*/cmdline; do
		[[ -O $file ]] || continue
		{ IFS= read -r -d '' shell && IFS= read -r -d '' script; } <"$file" || continue
		[[ $shell != /bin/bash || $script != "$dir"/*rank ]] || roots+=("$(basename "${file%/cmdline}")")
	done 2>/dev/null
}

# The program's own environment, but for what would change this node's programs, such as names that the C library takes
# from nobody else (secure_getenv): that is set within. A variable of the Job may be called as one of these functions' own,
# so the words are complete before the first is set. The shell's own integers must go before: it computes what they are set
# to, and runs $(...) in it.
run_exec() { # SECONDS WORD...
	local batchgate_entry batchgate_within=() batchgate_plain=()
	for batchgate_entry in "${environment[@]}"; do
		case ${batchgate_entry%%=*} in
		POSIXLY_CORRECT | GCONV_PATH | GETCONF_DIR | GLIBC_TUNABLES | HOSTALIASES | LOCALDOMAIN | LOCPATH | NIS_PATH | NLSPATH | RES_OPTIONS | RESOLV_HOST_CONF | TMPDIR | TZ | TZDIR)
			batchgate_within+=("$batchgate_entry")
			;;
		LD_LIBRARY_PATH | LD_[A-Z]* | '' | [!A-Za-z_]* | *[!A-Za-z0-9_]* | UID | EUID | PPID | GROUPS | BASH* | SHELLOPTS | FUNCNAME | DIRSTACK | batchgate_*)
			[[ $batchgate_entry == LD_LIBRARY_PATH=/.singularity.d/libs ]] || batchgate_within+=("$batchgate_entry")
			;;
		*) batchgate_plain+=("$batchgate_entry") ;;
		esac
	done
	# shellcheck disable=SC2016
	[[ ! $inner_path ]] || set -- "$1" sh -c 'cd -- "$1" && shift && exec "$@"' sh "$inner_path" "${@:2}"
	[[ ! ${batchgate_within[*]} ]] || set -- "$1" env -- "${batchgate_within[@]}" "${@:2}"
	set -- "$(type -P timeout)" -s KILL "$1" "$(type -P nsenter)" "${enter[@]}" "${@:2}"
	# No array can be exported; a local one may hide another.
	for batchgate_entry in $(compgen -e) $(compgen -A arrayvar) $(compgen -A arrayvar); do
		[[ $batchgate_entry == @(batchgate_*|BASH*|DIRSTACK|FUNCNAME|GROUPS|PIPESTATUS) ]] || unset -v "$batchgate_entry"
	done
	while read -r _ _ batchgate_entry; do unset -v "${batchgate_entry%%=*}"; done <<<"$(declare -pi)" 2>/dev/null
	unset -v SECONDS LINENO EPOCHSECONDS EPOCHREALTIME
	for batchgate_entry in "${batchgate_plain[@]}"; do export "${batchgate_entry?}"; done 2>/dev/null
	exec "$@" 8>&- 4>&-
}
