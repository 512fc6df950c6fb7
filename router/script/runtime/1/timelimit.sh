
# The timeout that the user set for the launcher. It counts from the first rank on: pulling an image is not the program's.
limit_launch() { # SECONDS
	local self=$BASHPID
	rm -f "$scratch/timed_out"
	: >"$dir/up"
	(end_in_time "$self" "$1" >/dev/null 2>&1 6>&- 7>&- 9>&- &)
}

# TERM goes to the launcher itself, as timeout sends it: no grace period for ranks but the launcher's own.
end_in_time() { # PID of the launcher, SECONDS
	local word='' end now
	trap '' TERM INT HUP USR1 USR2
	while kill -0 "$1"; do
		clock
		if [[ ! $word ]]; then
			read -r word <"$dir/up"
			end=$((now + $2))
		elif ((now >= end)); then
			: >"$scratch/timed_out"
			kill -TERM "$1"
			return
		fi
		pause 1
	done
}

# In place of the one without a limit: timeout's own code, whatever the launcher makes of the signal.
judge() {
	local first=''
	[[ $1 == "$mpi" ]] || return
	rm -rf "$dir/$name.tmp"
	if [[ -e $scratch/timed_out ]]; then
		code=124
	elif ((code)); then
		{ read -r first <"$dir/codes"; } 2>/dev/null
		[[ $first == *[!0-9]* ]] || code=${first:-$code}
	fi
}
