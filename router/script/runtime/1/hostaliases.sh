
# Lines of the Job's own behind those of /etc/hosts. Ranks on several nodes find each other by the nodes' names, of which
# one node may give its own the loopback's address.
host_aliases() {
	local file=$scratch/$name.hosts
	[[ " ${binds[*]} " != *[:\"]/etc/hosts[:\"\ ]* ]] || return 0
	{
		if [[ $(type -t several_nodes) == function ]] && several_nodes; then
			file=$dir/$name.hosts
			echo '127.0.0.1 localhost'
			sed '/^[[:space:]]*\(127\.\|::1[[:space:]]\)/d' /etc/hosts
		else
			cat "$scratch/hosts.own" 2>/dev/null || cat /etc/hosts
		fi
		printf '\n# Entries added by HostAliases.\n'
		printf '%s\n' "$@"
	} >"$scratch/$name.lines"
	mv "$scratch/$name.lines" "$file"
	binds+=(--bind "$file:/etc/hosts")
}
