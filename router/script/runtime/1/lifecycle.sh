
# What a kubelet does around a container: hooks and probes. The Job's functions "lifecycle_N" call the next three.
post_start() { [[ $wanted != post_start ]] || handler=("$@"); }
pre_stop() { [[ $wanted != pre_stop ]] || handler=("$@"); }
probe() { [[ $wanted != "$1" ]] || settings=("${@:2:6}") handler=("${@:8}"); }

# $handler: what container $1 has as $2. $settings of a probe: delay, period, timeout, successes, failures, grace.
find_handler() {
	local wanted=$2
	handler=() settings=()
	[[ $(type -t "lifecycle_$1") != function ]] || "lifecycle_$1"
	[[ ${handler[*]} ]]
}

wrap prepare prepare_itself
prepare() {
	[[ $(type -t "lifecycle_$1") != function ]] || accompany "$1" "$BASHPID"
	prepare_itself "$1"
}

# Before the container begins, so that nobody takes it for ready meanwhile.
accompany() { # CONTAINER PID
	local i=$1 run=${pipe##*.} is_ready=false is_started=false
	rm -rf "$scratch/$name".{started,posted,unhealthy,unfit,*.ends}
	echo "$run" >"$scratch/$name.run"
	mkfifo -m 600 "$scratch/$name.$run.events" || exit 1
	tell_state
	(
		exec 4<>"$scratch/$name.$run.events" # while it is surely there: else this would make a file, which ends at once
		set -m
		look_after "$1" "$2" >/dev/null 2>&1 6>&- 7>&- 9>&- &
		echo "group $!" >/proc/$$/fd/7
	)
}

# A note of what is known about this run, which replaces those before; with a reason it is told as an Event too.
tell_state() { # [REASON BASE64]
	local number=0 notes
	{ read -r number <"$scratch/$name.told"; } 2>/dev/null
	echo $((number + 1)) >"$scratch/$name.told"
	notes=$((number * ${#names[@]} + i)) # numbers of its own
	note probed ",\"container\":\"$name\",\"restart\":$run,\"ready\":$is_ready,\"started\":$is_started,\"reason\":\"${1:-}\",\"said\":\"${2:-}\""
	wait "$!"
	((number < 9)) || rm -f "$spool/$uid.$(((number - 9) * ${#names[@]} + i + 1)).probed"
}

encode() { printf %s "${1:0:1000}" | base64 -w 0; }

# In a process group of its own, from before the container's first process to after its last.
look_after() { # CONTAINER PID
	local i=$1 self=$2 word value text began handler=() settings=() said code inner='' inner_path='' environment=() enter=()
	trap : TERM INT HUP USR1 USR2 # not ignored: programs would inherit that
	set +m
	echo "$BASHPID" >"$scratch/$name.keeper"
	(while kill -0 "$self" 2>/dev/null; do pause 1; done; echo over >&4) & # "judge" is sooner
	run_through &
	while :; do
		read -r word value text <&4 || continue
		case $word in
		started)
			is_started=true
			: >"$scratch/$name.started"
			find_handler "$i" readiness || is_ready=true
			tell_state
			;;
		ready)
			is_ready=$value
			tell_state
			;;
		told) tell_state "$value" "$text" ;;
		failed)
			is_ready=false
			tell_state Killing "$text"
			put_down "$value"
			;;
		over) break ;;
		esac
	done
	look_after_no_more
}

# The container has ended: so do its probes, with what they run.
look_after_no_more() {
	local file keeper='' number
	{ read -r keeper <"$scratch/$name.keeper"; } 2>/dev/null && : >"$scratch/$name.keeper"
	for file in "$scratch/$name".*.runs; do
		{ read -r number <"$file"; } 2>/dev/null && kill -KILL -- "-$number" 2>/dev/null
	done
	rm -f "$scratch/$name".*.{runs,said,pipe,events}
	[[ ! $keeper ]] || { echo "gone $keeper" >/proc/$$/fd/7 && kill -KILL -- "-$keeper"; } 2>/dev/null
}

# The course of one run: hook, startup probe, then the other two.
run_through() {
	local one
	for one in post_start pre_stop startup liveness readiness; do
		! find_handler "$i" "$one" || [[ ${handler[0]} != https ]] || type -P curl >/dev/null ||
			unfit "asks by HTTPS, and there is no curl on $HOSTNAME"
	done
	while :; do
		find_container "$i" "$self"
		case $? in
		0) break ;;
		2)
			! runs_commands || unfit "the container runtime on $HOSTNAME lets nobody enter its containers, as hooks and probes must; it is installed with setuid"
			break
			;;
		esac
		kill -0 "$self" || exit
		pause 0.1
	done
	clock
	began=$now
	if find_handler "$i" post_start && ! handle 0 "${handler[@]}"; then
		: >"$scratch/$name.posted"
		echo "told FailedPostStartHook $(encode 'PostStartHook failed')" >&4
		echo "failed $grace $(encode 'FailedPostStartHook')" >&4
		exit
	fi
	: >"$scratch/$name.posted"
	! find_handler "$i" startup || keep_probing startup || exit
	echo started >&4
	! find_handler "$i" liveness || keep_probing liveness &
	! find_handler "$i" readiness || keep_probing readiness
	wait
}

runs_commands() {
	local one
	for one in post_start pre_stop startup liveness readiness; do
		! find_handler "$i" "$one" || [[ ${handler[0]} != exec ]] || return 0
	done
	return 1
}

# The container is not run without what it asks for.
unfit() {
	local why
	because "$1"
	printf %s "$why" >"$scratch/$name.why"
	: >"$scratch/$name.unfit"
	say "$1" 2>"$scratch/$name.log.$run"
	end_session "$self"
	exit
}

# Returns when a startup probe succeeds, fails when the container is to be killed.
keep_probing() { # ROLE
	local delay period timeout successes failures allowed next last='' streak=0 stated='' told_at=-60 warned_at=-60 will=''
	find_handler "$i" "$1"
	read -r delay period timeout successes failures allowed <<<"${settings[*]}"
	next=$((began + delay))
	while :; do
		clock
		while ((now < next)); do
			pause $((next - now))
			clock
		done
		[[ ! -e $scratch/ending || $1 == readiness ]] || return 1
		((next += period, next > now)) || next=$now
		handle "$timeout" "${handler[@]}"
		# A container that ends takes the probe along a little before its runtime ends.
		[[ $code != 137 || $said == 'timed out'* ]] || pause 1
		kill -0 "$self" || exit # it has ended meanwhile
		if [[ $said == 'nsenter: '* ]]; then # not started: neither a success nor a failure
			code=0$code
			find_container "$i" "$self"
		fi
		case $code in
		0) [[ $last == good ]] || last=good streak=0 ;;
		[1-9]*) [[ $last == bad ]] || last=bad streak=0 ;;
		esac
		[[ $code == 0?* ]] || ((++streak))
		clock
		if [[ $code != 0 ]] && { ((streak == failures || now - told_at >= 60)); }; then
			told_at=$now
			word=failed
			[[ $code != 0?* ]] || word=errored
			echo "told Unhealthy $(encode "${1^} probe $word: $said")" >&4
		elif [[ $code == 0 && ${handler[0]} == http* && $said ]] && ((now - warned_at >= 60)); then
			warned_at=$now
			echo "told ProbeWarning $(encode "${1^} probe warning: $said")" >&4
		fi
		case $code in
		0)
			((streak >= successes)) || continue
			[[ $1 != startup ]] || return 0
			[[ $1 != readiness || $stated == true ]] || echo 'ready true' >&4
			stated=true
			;;
		[1-9]*)
			((streak >= failures)) || continue
			if [[ $1 == readiness ]]; then
				[[ $stated != true ]] || echo 'ready false' >&4
				stated=false
				continue
			fi
			: >"$scratch/$name.unhealthy"
			! runs_again || will=', will be restarted'
			echo "failed ${allowed:-$grace} $(encode "Container $name failed $1 probe$will")" >&4
			return 1
			;;
		esac
	done
}

# Runs a handler for at most $1 seconds, 0 without a limit: $code, and $said, the beginning of what it says.
handle() {
	local limit=$1 at=$scratch/$name.$BASHPID reader runner turns=0 begun
	said='' code=0
	if [[ $2 == sleep ]]; then
		pause $((limit && $3 > limit ? limit : $3))
		return
	fi
	mkfifo -m 600 "$at.pipe" || return
	{
		head -c 10240 >"$at.said"
		cat >/dev/null
	} <"$at.pipe" &
	reader=$!
	clock
	begun=$now
	"run_$2" "$limit" "${@:3}" </dev/null >"$at.pipe" 2>&1 &
	runner=$!
	echo "$runner" >"$at.runs"
	while wait "$runner"; code=$?; kill -0 "$runner" 2>/dev/null; do :; done
	# What it has started may go on, and keep the pipe.
	while kill -0 "$reader" 2>/dev/null && ((turns++ < 25)); do pause 0.02; done
	said=$(tr -d '\0' <"$at.said")
	clock
	((code != 137 || !limit || now - begun < limit)) || said="timed out after ${limit}s"
	rm -f "$at".{pipe,said,runs}
	return "$code"
}

# As a kubelet kills: the hook, the signal, and after the time of both a kill.
put_down() { # SECONDS
	local limit pids=()
	clock
	limit=$((now + $1))
	mkdir "$scratch/$name.$run.ends" 2>/dev/null || return 0 # it is asked already
	run_pre_stop "$1" || tell_state FailedPreStopHook "$(encode 'PreStopHook failed')"
	pids[i]=$self
	ask_itself "$i"
	clock
	((limit >= now + 2)) || limit=$((now + 2))
	while kill -0 "$self" 2>/dev/null; do
		clock
		((now < limit)) || end_session "$self"
		pause 0.2
	done
}

run_pre_stop() { # SECONDS
	(($1)) && find_handler "$i" pre_stop || return 0
	find_container "$i" "$self"
	[[ $? != 1 ]] || return 0
	handle "$1" "${handler[@]}"
}

wrap ask ask_itself
ask() {
	local i=$1 name=${names[$1]} self=${pids[$1]} run='' handler settings
	{ read -r run <"$scratch/$name.run"; } 2>/dev/null
	if [[ ! $run || -e $scratch/pulls ]] || ! find_handler "$1" pre_stop; then
		ask_itself "$1"
	elif mkdir "$scratch/$name.$run.ends" 2>/dev/null; then
		(ask_after_hook >/dev/null 2>&1 4<>"$scratch/$name.$run.events" 7>&- 9>&- &)
	fi
}

ask_after_hook() {
	local said code inner='' inner_path='' environment=() enter=()
	trap : TERM INT HUP USR1 USR2
	run_pre_stop "$grace" || echo "told FailedPreStopHook $(encode 'PreStopHook failed')" >&4
	! kill -0 "$self" || ask_itself "$i"
}

wrap judge judge_itself
judge() {
	local i
	[[ $(type -t "lifecycle_$1") != function ]] || look_after_no_more
	judge_itself "$1"
	[[ ! -e $scratch/$name.unfit ]] || code=126
	i=$1
	[[ ! -e $scratch/$name.unhealthy || $stopping ]] || ! runs_again || say_again yes
}

# Whether the container's policy has it run again when a probe has ended it, whatever its code.
runs_again() {
	local policy=$restart_policy
	[[ $(type -t own_policy) != function ]] || own_policy "$i"
	[[ $policy != Never || $kind == sidecar ]]
}

# In place of that of base: what comes next waits for a sidecar's startup probe, and for the hook of a container.
run_containers() {
	local i
	for i in "${!kinds[@]}"; do
		[[ ${kinds[i]} != main ]] || continue
		start "$i"
		if [[ ${kinds[i]} == sidecar ]]; then until_there "$i" started; else until_ended; fi
		((result == 0)) || return
	done
	for i in "${!kinds[@]}"; do
		[[ ${kinds[i]} == main ]] || continue
		start "$i"
		! find_handler "$i" post_start || until_there "$i" posted
	done
	until_ended
}

until_there() { # CONTAINER MARK
	[[ $(type -t "lifecycle_$1") == function ]] || return 0
	while [[ ${workers[$1]} && ! -e $scratch/${names[$1]}.$2 && ! $ending ]]; do turn; done
}
