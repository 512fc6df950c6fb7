
# --- the same in every script ---

say() { printf 'batchgate: %s\n' "$*" >&2; }

# Seconds of a clock that nobody sets.
clock() {
	read -r now _ </proc/uptime
	now=${now%%.*}
}

# Waits without a process: nothing ever comes on 8.
pause() { read -r -t "$1" -u 8 || :; }

# One job alone may run a Pod. On NFS ln can fail although it linked: a count of 2 proves it.
claim() {
	token=$job_id.$RANDOM$RANDOM$RANDOM
	local mine=$dir/claim.$token
	[[ -d $dir ]] && echo "$token" >"$mine" || return 1
	ln -T "$mine" "$dir/claim" 2>/dev/null && return
	[[ $(stat -c %h "$mine") == 2 ]] && return
	claimed_by && [[ $owner == "$token" ]] && return
	rm -f "$mine"
	return 1
}

claimed_by() {
	owner=
	{ read -r owner <"$dir/claim"; } 2>/dev/null
}

# A change of state, as a file: the agent lists one directory.
note() {
	local time file=$uid.$((++notes)).$1
	printf -v time '%(%s)T' -1
	{
		printf '{"event":"%s","job":"%s","host":"%s","time":%s%s}\n' "$1" "$job_id" "$HOSTNAME" "$time" "${2:-}" \
			>"$spool/.$file" && mv -T "$spool/.$file" "$spool/$file"
	} 2>/dev/null 7>&- 9>&- &
}

# Touches "alive", looks at the claim. A hanging file server stops this, not the main loop.
heartbeat() {
	trap '' TERM INT HUP USR1 USR2
	exec 7>&-
	while kill -0 $$ 2>/dev/null; do
		if claimed_by && [[ $owner != "$token" ]]; then
			echo lost >&9
		else
			touch "$dir/alive" && echo alive >&9
		fi
		pause 15
		beat
	done
}

beat() { :; }

end_session() {
	local directory line
	for directory in /proc/[0-9]*; do
		read -r line <"$directory/stat" && [[ $line == *" $1 "* ]] || continue # quick, for thousands
		## "pid (command) state parent group session": the command may hold anything.
		set -- "$1" ${line##*) }
		[[ $5 != "$1" ]] || kill -KILL "${directory##*/}"
	done 2>/dev/null
}

## Wakes the main loop: a read with a time limit loses what comes just then.
tick() {
	trap '' TERM INT HUP USR1 USR2
	exec 7>&- >&9 2>/dev/null
	while kill -0 $$; do
		echo tick
		pause 1
	done
}

## 7: to the guard. 8: nothing. 9: events. Named pipes: older shells let process substitutions leak.
open_pipes() {
	mkfifo "$scratch/"{guard,never,events} || exit 75
	setsid /bin/bash -c "$(declare -f end_session guard); guard \"\$1\"" guard "$scratch" <"$scratch/guard" &
	exec 7>"$scratch/guard" 8<>"$scratch/never" 9<>"$scratch/events"
	rm "$scratch/"{guard,never,events}
}

## Reads of sessions (-N: ended) and process groups (gone N). Without a last "done" it kills the groups, which would start
## containers again, and the sessions, also those only noted in $1.
guard() {
	local word number file sessions=() groups=()
	trap '' TERM INT HUP USR1 USR2
	while read -r word number; do
		case $word in
		done) return ;;
		group) groups[number]=1 ;;
		gone) unset "groups[number]" ;;
		-*) unset "sessions[${word#-}]" ;;
		*) sessions[word]=1 ;;
		esac
	done
	for word in "${!groups[@]}"; do kill -KILL -- "-$word" 2>/dev/null; done
	for file in ${1:+"$1"/*.pid}; do
		number=''
		{ read -r number <"$file"; } 2>/dev/null
		[[ ! $number ]] || sessions[number]=1
	done
	for word in "${!sessions[@]}"; do end_session "$word"; done
	[[ ! $1 ]] || rm -rf "$1"
}

## Zero-terminated words of the agent, if any.
staged() {
	local word
	words=()
	[[ -f $1 ]] || return
	while IFS= read -r -d '' word; do words+=("$word"); done <"$1"
}

## The container's values; what is staged wins.
load() {
	workdir='' command='' tmp='' gpus=0 first_gpu=0 argv=() env=() own=() binds=() options=() ahead=() needs_argv=''
	name=${names[$1]} kind=${kinds[$1]}
	"container_$1"
	staged_image
	if [[ $1 != "${mpi:-}" ]] || ! several_nodes; then own_hostname; fi
	if staged "$dir/argv/$name"; then
		argv=("${words[@]}")
	elif [[ $needs_argv ]]; then
		say "$dir/argv/$name is missing: the Pod's directory is not complete"
		exit 1
	fi
	staged "$dir/env/$name"
	env+=("${words[@]}" "${own[@]}")
	((gpus == 0)) || [[ $1 == "${mpi:-}" ]] || give_devices
}

## Stdin to the log, unbuffered, up to the limit; read to its end, so that no writer fails.
keep_log() {
	trap '' TERM INT HUP USR1 USR2
	exec 9>&- >"$1" || exec 9>&- >/dev/null
	local unbuffered=()
	! type -P stdbuf >/dev/null || unbuffered=(stdbuf -o0)
	"${unbuffered[@]}" head -c "$log_limit"
	if (($(head -c 1 | wc -c))); then
		printf '\nbatchgate: the log ends here: it has reached the limit of this site, %s bytes\n' "$log_limit"
		cat >/dev/null
	fi
}

# Runs container $1, the $2th time: $code, $started, $finished.
run_once() {
	local pipe=$scratch/$name.log.$2 logger pid='' turns=0 said
	why=''
	[[ ! -e $dir/message/$name ]] || : >"$dir/message/$name"
	mkfifo "$pipe"
	: >"$scratch/$name.pid"
	keep_log "$dir/log/$name.$2" <"$pipe" &
	logger=$!
	exec 6>"$pipe"
	printf -v started '%(%s)T' -1
	(
		exec >&6 2>&6
		load "$1"
		umask 022
		prepare "$1"
		echo "$BASHPID" >"$scratch/$name.pid"
		echo "pid $1 $BASHPID $2" >&9
		exec setsid "${ahead[@]}" "${words[@]}" </dev/null 6>&- 8>&- 9>&-
	)
	code=$?
	printf -v finished '%(%s)T' -1
	judge "$1"
	exec 6>&-
	read -r pid <"$scratch/$name.pid" && end_session "$pid"
	: >"$scratch/$name.pid"
	while kill -0 "$logger" 2>/dev/null && ((turns++ < 250)); do pause 0.02; done
	last_word "$dir/log/$name.$2"
	examine "$1" "$dir/log/$name.$2"
	[[ ! $said ]] || why+=",\"said\":\"$said\""
}

## $said: what the program leaves for status.state.terminated.message, or the end of its log $1 where that stands in.
last_word() {
	said=$(tail -c 4096 "$dir/message/$name" 2>/dev/null | base64 -w 0)
	[[ $said || $code == 0 || " ${from_log[*]} " != *" $name "* ]] || said=$(tail -n 80 "$1" | tail -c 2048 | base64 -w 0)
}

## For the exit file: why nothing was started.
because() {
	local text=${1//[[:cntrl:]]/ }
	text=${text:0:1000}
	text=${text//\\/\\\\} text=${text//\"/\\\"}
	why=",\"reason\":\"${2:-CreateContainerError}\",\"message\":\"$text\""
}

# The exit file of run $1, whole when it appears.
write_exit() {
	local file=$name.$1
	printf '{"code":%s,"signal":%s,"started":%s,"finished":%s,"deadline":%s,"log":%s%s}\n' \
		"$code" $((code > 128 && code < 160 ? code - 128 : 0)) "$started" "$finished" "$late" \
		"$(stat -c %s "$dir/log/$file" || echo 0)" "$why" >"$dir/exit/.$file" && mv -T "$dir/exit/.$file" "$dir/exit/$file"
}

# Runs container $1, again where its policy says so; tells the main loop.
worker() {
	local restart=0 delay=10 code=143 started finished stopping='' late=false why
	trap 'stopping=1' TERM USR1 INT HUP
	trap 'stopping=1 late=true' USR2
	exec 7>&-
	name=${names[$1]} kind=${kinds[$1]}
	while [[ ! $stopping ]]; do
		run_once "$1" "$restart"
		write_exit "$restart" || {
			say "how container $name ended ($code) cannot be written to $dir/exit"
			((code)) || code=1
		}
		echo "exit $1 $code $restart" >&9
		[[ $restart_policy == OnFailure || $kind == sidecar ]] || break
		again || break
	done
	echo "end $1 $code" >&9
}

start() {
	attend
	[[ ! $ending ]] || return
	set -m # or the container would ignore SIGINT
	(
		set +m
		worker "$1"
		exit
	) &
	workers[$1]=$!
	echo "group $!" >&7
	set +m
}

# Asks container $1 to end; its worker starts it no more.
end() {
	local word=TERM
	[[ $ending != deadline ]] || word=USR2
	kill -s "$word" "${workers[$1]}" 2>/dev/null
	[[ ! ${pids[$1]} ]] || ask "$1"
}

stop() {
	local i
	ending=$1
	: >"$scratch/ending"
	clock
	kill_at=$((now + grace))
	# Others may start when "alive" is 180 s old.
	[[ $ending != lost ]] || kill_at=$((now + (grace < 30 ? grace : 30)))
	say "ending the containers: $2"
	for i in "${!workers[@]}"; do [[ ${kinds[i]} == sidecar ]] || end "$i"; done
}

turn() {
	local word i value rest
	read -r -u 9 word i value rest
	case $word in
	alive) alive=1 ;;
	lost) asked=lost ;;
	asked) asked=${asked:-signal} ;;
	pid)
		pids[i]=$value
		echo "$value" >&7
		note running ",\"container\":\"${names[i]}\",\"restart\":$rest$doubt"
		doubt=''
		[[ ! $ending || (${kinds[i]} == sidecar && ! $closing) ]] || end "$i"
		;;
	exit)
		echo "-${pids[i]}" >&7
		unset "pids[i]"
		note exited ",\"container\":\"${names[i]}\",\"code\":$value,\"restart\":$rest"
		;;
	end) ended "$i" "$value" ;;
	tick)
		for i in "${!workers[@]}"; do
			kill -0 "${workers[i]}" 2>/dev/null && continue
			## Its last words may still be in the pipe, but not for two ticks.
			((++missing[i] < 2)) || ended "$i" 137
		done
		;;
	esac
	attend
}

## What time and signals demand.
attend() {
	local i gap
	clock
	## A tick a second: in a longer gap the job was suspended, which does not count.
	gap=$((now - last_turn)) last_turn=$now
	if ((gap > 15)); then
		alive_at=$((alive_at + gap)) deadline_at=$((deadline_at + gap))
		((!kill_at)) || kill_at=$((kill_at + gap))
	fi
	[[ ! $alive ]] || alive_at=$now
	alive=
	if [[ $ending ]]; then
		((now < kill_at)) || for i in "${!pids[@]}"; do end_session "${pids[i]}"; done
	elif [[ $asked == lost ]]; then
		leave_to_other
	elif [[ $asked ]]; then
		stop signal 'the batch system says so'
	elif ((now >= deadline_at)); then
		stop deadline 'their time is up'
	elif ((now - alive_at > 60)); then
		stop lost "the Pod's directory cannot be reached"
	fi
}

ended() { # CONTAINER CODE
	echo "gone ${workers[$1]}" >&7
	unset "workers[$1]" "pids[$1]"
	[[ ${kinds[$1]} == sidecar || $2 == 0 || $result != 0 ]] || result=$2
}

until_ended() {
	local i running=1
	while [[ $running ]]; do
		running=
		for i in "${!workers[@]}"; do [[ ${kinds[i]} == sidecar ]] || running=1; done
		[[ ! $running ]] || turn
	done
}

# Nothing can run: the sentence goes into each log.
refuse() {
	local name kind i code=$1 started finished late=false why
	say "$2"
	because "$2"
	printf -v started '%(%s)T' -1
	finished=$started
	for i in "${!kinds[@]}"; do
		name=${names[i]}
		[[ ${kinds[i]} == main ]] || continue
		printf 'batchgate: %s\n' "$2" >"$dir/log/$name.0"
		write_exit 0
	done
	leave "$1"
}

silence() {
	{ disown "${beating[@]}" && kill -KILL "${beating[@]}"; } 2>/dev/null
}

leave() {
	trap '' TERM INT HUP USR1 XCPU
	note ended ",\"code\":$1,\"reason\":\"$ending\""
	[[ $ending == lost ]] || wait "$!"
	silence
	echo 'done' >&7
	rm -rf "$scratch"
	exit "$1"
}

run_containers() {
	local i
	for i in "${!kinds[@]}"; do
		[[ ${kinds[i]} != main ]] || continue
		start "$i"
		[[ ${kinds[i]} == sidecar ]] || until_ended
		((result == 0)) || return
	done
	for i in "${!kinds[@]}"; do [[ ${kinds[i]} != main ]] || start "$i"; done
	until_ended
}

# All ends at once, and nothing more is written.
leave_to_other() {
	local i
	say "the claim of this Pod is another's: ending at once"
	for i in "${!workers[@]}"; do kill -KILL "${workers[i]}"; done 2>/dev/null
	for i in "${!pids[@]}"; do end_session "${pids[i]}"; done
	rm -rf "$scratch"
	silence
	exit 75
}

set_up() {
	[[ ${#modules[@]} == 0 ]] || load_modules
	[[ $(type -t before) != function ]] || before 7>&- 8>&- 9>&-
	find_runtime
	[[ ! $devices_per_node ]] || check_devices
}

main() {
	local workers=() pids=() missing=() doubt='' ending='' asked='' closing='' alive='' kill_at=0 result=0 notes=0 beating=()
	exec </dev/null # bash has read all that came this way
	umask 077
	LC_ALL=C
	cd / || exit 75
	dir=${1:-${BATCHGATE_DIR:-}}
	while [[ $dir == */ ]]; do dir=${dir%/}; done
	job_id=${PBS_JOBID:-${SLURM_JOB_ID:-0}}
	uid=${dir##*/} spool=${dir%/*/*/*/*}/spool
	if [[ $dir != /* ]] || ! claim; then
		say "nothing is run: the Pod's directory is not there, cannot be written, or is another job's: ${dir:-none given}"
		exit 75
	fi
	trap 'asked=${asked:-signal}' TERM INT HUP XCPU
	## Slurm warns up to a minute early; sooner where its limit was cut.
	trap 'clock; ((deadline_at - now < 90)) || deadline_at=0' USR1
	clock
	alive_at=$now last_turn=$now deadline_at=$((now + deadline))
	mkdir -p "$dir/log" "$dir/exit" "$spool"
	if [[ ! -w $dir/log || ! -w $dir/exit ]]; then
		say "nothing is run: $dir/log and $dir/exit cannot be written"
		exit 75
	fi
	scratch=$(mktemp -d -p "${TMPDIR:-/tmp}" batchgate.XXXXXXXX || mktemp -d -p /tmp batchgate.XXXXXXXX) || exit 75
	open_pipes
	heartbeat &
	beating=("$!")
	tick &
	beating+=("$!")
	if [[ $(type -t heed_end_file) == function ]]; then
		heed_end_file &
		beating+=("$!")
	fi
	note started
	set_up
	clock
	alive_at=$now last_turn=$now # the site's lines may take long
	run_containers
	[[ " ${kinds[*]} " != *' sidecar '* ]] || end_sidecars
	if [[ $(type -t after) == function ]]; then
		after 7>&- 8>&- 9>&-
		[[ $ending || ! $asked ]] || ending=$asked # told to end meanwhile
	fi
	case $ending in
	deadline) ((result != 0)) || result=124 ;;
	?*) ((result != 0)) || result=143 ;;
	esac
	leave "$result"
}
