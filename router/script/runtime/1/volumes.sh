
# ROOT BELOW SUBPATH TARGET [ro [made]]: binds what lies in a volume. ROOT is the admin's own path and may hold links; what is
# below it a container may have planted, and a link that leads out of ROOT, or of the volume, would bind the host in.
# Directories of the subPath that lack are made, as by a kubelet: with ro only if the mount alone is read-only (made).
volume() {
	local root base end
	walks+=("${#binds[@]}" "$1" "$2" "$3" "$4" "${5:-}" "${6:-}")
	root=$(realpath -e -- "$1" 2>/dev/null) || not_mounted "there is no $1 on $HOSTNAME, which is to be mounted"
	root=${root%/}
	base=$(realpath -e -- "${root:-/}${2:+/$2}" 2>/dev/null) ||
		not_mounted "there is no $1${2:+/$2} on $HOSTNAME, which is to be mounted"
	base=${base%/}
	[[ $base/ == "$root"/* ]] || not_mounted "the volume's path $2 leads out of $1, by a link"
	end=$base
	[[ ! $3 ]] || end=$(realpath -m -- "$base/$3" 2>/dev/null)
	[[ $end/ == "$base"/* ]] || not_mounted "the subPath $3 leads out of its volume, by a link"
	if [[ ${6:-} ]]; then walk ''; else walk "${5:-}"; fi
	mount "${end:-/}" "$4" "${5:-}"
}

# From $root to $end, each step from where the last one ended. By now no name on the way may be a link, and it is the kernel
# that says where a step has led: one that was exchanged meanwhile is refused.
walk() {
	local part parts here=$root
	[[ $end != "$root" ]] || return 0
	cd -P "${root:-/}" 2>/dev/null || not_mounted "${root:-/} cannot be entered on $HOSTNAME"
	IFS=/ read -r -a parts <<<"${end#"$root"/}"
	for part in "${parts[@]}"; do
		here+=/$part
		[[ $1 || -e ./$part || -L ./$part ]] || mkdir -m 700 "./$part" 2>/dev/null
		if [[ $here == "$end" && ! -L ./$part && -e ./$part && ! -d ./$part ]]; then break; fi
		[[ -e ./$part ]] || not_mounted "there is no $here on $HOSTNAME, which is to be mounted"
		cd -P "./$part" 2>/dev/null && [[ $(readlink /proc/self/cwd) == "$here" ]] ||
			not_mounted "$here cannot be entered on $HOSTNAME, or is exchanged for a link"
	done
	cd /
	[[ $here == "$end" ]] || not_mounted "$end has a line break in it"
}

not_mounted() {
	local why
	say "$1: the container is not started"
	because "$1"
	[[ ! $scratch ]] || printf %s "$why" >"$scratch/$name.why"
	exit 126
}

# A rank's volumes, on its own node.
walk_again() {
	local i first given=("${walks[@]}")
	for ((i = 0; i < ${#given[@]}; i += 7)); do
		first=("${binds[@]}") binds=()
		volume "${given[@]:i+1:6}"
		binds=("${first[@]:0:given[i]}" "${binds[@]}" "${first[@]:given[i]+2}")
	done
}
