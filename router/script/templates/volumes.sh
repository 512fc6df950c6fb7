
# ROOT SUBPATH TARGET [ro]: binds what lies in a volume. Directories of the subPath that lack are made. A container may
# have planted links in the volume; one that leads out of it is refused, or the host would be bound in.
volume() {
	local root below part parts
	root=$(realpath -e "$1" 2>/dev/null) || missing "$1"
	below=$root
	IFS=/ read -r -a parts <<<"$2"
	for part in "${parts[@]}"; do
		[[ $part && $part != . ]] || continue
		[[ ${4:-} || -e $below/$part || -L $below/$part ]] || mkdir "$below/$part"
		below=$(realpath -e "$below/$part" 2>/dev/null) || missing "$1/$2"
		if [[ $below/ != "$root"/* ]]; then
			say "the subPath $2 leads out of its volume, by a link: the container is not started"
			exit 1
		fi
	done
	mount "$below" "$3" "$4"
}

missing() {
	say "there is no $1 on $HOSTNAME, which is to be mounted: the container is not started"
	exit 1
}
