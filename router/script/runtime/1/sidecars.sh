
end_sidecars() {
	local i limit
	closing=1
	clock
	limit=$((now + grace))
	[[ ! $ending ]] || limit=$kill_at
	for ((i = ${#kinds[@]} - 1; i >= 0; i--)); do
		[[ ${workers[i]} ]] || continue
		end "$i"
		while [[ ${workers[i]} ]]; do
			turn
			((now < limit)) || [[ ! ${pids[i]} ]] || end_session "${pids[i]}"
		done
	done
}
