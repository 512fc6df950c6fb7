# Two nodes: the launcher starts one shell on each, which leaves a file in the work directory.
write_hosts() {
	local host
	local -A known=()
	while read -r host _ || [[ $host ]]; do
		[[ $host && ! ${known[$host]} ]] || continue
		known[$host]=1
		# shellcheck disable=SC2059
		printf "$host_line\n" "$host"
	done <"${PBS_NODEFILE:-/dev/null}" >hosts
}

probe() {
	local path words code line said=0
	path=$(type -P "$launcher")
	note launcher-path "$path"
	if [[ $path ]]; then
		note launcher-version "$(timeout 10 "$path" --version 2>/dev/null </dev/null | grep -m 1 '[0-9]')"
		[[ ! $host_line ]] || write_hosts
		words=$(timeout 120 "$path" "${launcher_options[@]}" /bin/bash "$dir/rank" "$dir" 2>&1 </dev/null)
		code=$?
		note launched "$code"
		while read -r line; do
			if [[ $line == 'batchgate-rank '* ]]; then
				note rank "${line#batchgate-rank }"
			elif ((said++ < 60)); then
				note said "${line:0:500}"
			fi
		done <<<"$words"
	fi
	finish
}
