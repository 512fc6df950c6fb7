#!/bin/bash
#PBS -q workq
#PBS -l select=1:ncpus=1:mpiprocs=1:ompthreads=1
#PBS -l walltime=01:00:00
# shellcheck disable=SC2016,SC2034,SC2086,SC2317,SC2329
# The directory of the Pod comes in BATCHGATE_DIR (qsub -v).

# --- this Job: physics/simulate ---
kinds=(main)
names=(main)
deadline=3510 # seconds for the containers
grace=30 # seconds between TERM and KILL
restart_policy=Never
log_limit=10737418240 # bytes of one log
runtime=/opt/apptainer/bin/apptainer
env_prefix=APPTAINERENV_
from_log=() # the end of whose log is their message where they fail
modules=()

container_0() { # main
	command=1
	argv=(work)
	env=(OMP_NUM_THREADS=1)
	image=/sif/image.sif
	options=(--cleanenv --no-home --no-eval --pid --writable-tmpfs)
	own_tmp
	volume /project physics/results '' /a
	mkdir -p "$dir"/volumes/scratch
	volume "$dir"/volumes/scratch '' one /a/deep
	volume /lustre/data 'set 1' '' /data ro
	mount "$dir"/files/conf /etc/app ro
	message /dev/termination-log
}

# runtime 1: base apptainer volumes plain

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
	done
}

end_session() {
	local directory line
	for directory in /proc/[0-9]*; do
		read -r line <"$directory/stat" && [[ $line == *" $1 "* ]] || continue # quick, for thousands
		# "pid (command) state parent group session": the command may hold anything.
		set -- "$1" ${line##*) }
		[[ $5 != "$1" ]] || kill -KILL "${directory##*/}"
	done 2>/dev/null
}

# Wakes the main loop: a read with a time limit loses what comes just then.
tick() {
	trap '' TERM INT HUP USR1 USR2
	exec 7>&- >&9 2>/dev/null
	while kill -0 $$; do
		echo tick
		pause 1
	done
}

# 7: to the guard. 8: nothing. 9: events. Named pipes: older shells let process substitutions leak.
open_pipes() {
	mkfifo "$scratch/"{guard,never,events} || exit 75
	setsid /bin/bash -c "$(declare -f end_session guard); guard \"\$1\"" guard "$scratch" <"$scratch/guard" &
	exec 7>"$scratch/guard" 8<>"$scratch/never" 9<>"$scratch/events"
	rm "$scratch/"{guard,never,events}
}

# Reads of sessions (-N: ended) and process groups (gone N). Without a last "done" it kills the groups, which would start
# containers again, and the sessions, also those only noted in $1.
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
	for file in "$1"/*.pid; do
		number=''
		{ read -r number <"$file"; } 2>/dev/null
		[[ ! $number ]] || sessions[number]=1
	done
	for word in "${!sessions[@]}"; do end_session "$word"; done
	rm -rf "$1"
}

# Zero-terminated words of the agent, if any.
staged() {
	local word
	words=()
	[[ -f $1 ]] || return
	while IFS= read -r -d '' word; do words+=("$word"); done <"$1"
}

# The container's values; what is staged wins.
load() {
	workdir='' command='' tmp='' gpus=0 first_gpu=0 argv=() env=() own=() binds=() options=() ahead=() needs_argv=''
	name=${names[$1]} kind=${kinds[$1]}
	"container_$1"
	staged_image
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

# Stdin to the log, unbuffered, up to the limit; read to its end, so that no writer fails.
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

# $said: what the program leaves for status.state.terminated.message, or the end of its log $1 where that stands in.
last_word() {
	said=$(tail -c 4096 "$dir/message/$name" 2>/dev/null | base64 -w 0)
	[[ $said || $code == 0 || " ${from_log[*]} " != *" $name "* ]] || said=$(tail -n 80 "$1" | tail -c 2048 | base64 -w 0)
}

# For the exit file: why nothing was started.
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
		note running ",\"container\":\"${names[i]}\",\"restart\":$rest"
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
			# Its last words may still be in the pipe, but not for two ticks.
			((++missing[i] < 2)) || ended "$i" 137
		done
		;;
	esac
	attend
}

# What time and signals demand.
attend() {
	local i gap
	clock
	# A tick a second: in a longer gap the job was suspended, which does not count.
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
	local workers=() pids=() missing=() ending='' asked='' closing='' alive='' kill_at=0 result=0 notes=0 beating=()
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
	# Slurm warns up to a minute early; sooner where its limit was cut.
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
	[[ $(type -t after) != function ]] || after 7>&- 8>&- 9>&-
	case $ending in
	deadline) ((result != 0)) || result=124 ;;
	?*) ((result != 0)) || result=143 ;;
	esac
	leave "$result"
}

find_runtime() {
	local found
	found=$(type -P "$runtime") || refuse 127 "there is no $runtime on $HOSTNAME; PATH is $PATH"
	runtime=$found
}

staged_image() {
	local entry
	declare -gA known=()
	staged "$dir/image/$name"
	for entry in "${words[@]}"; do known[${entry%%=*}]=${entry#*=}; done
	image=${known[path]:-$image} workdir=${workdir:-${known[workdir]}} command=${command:-${known[command]}}
	[[ ! ${known[source]} ]] || pull_first
	staged "$dir/image-env/$name"
	image_env=("${words[@]}")
}

# A /tmp of its own, on the node.
own_tmp() { mount_tmp "$scratch/$name.tmp"; }

mount_tmp() {
	tmp=$1
	rm -rf "$tmp" # an earlier run's
	mkdir -m 1777 "$tmp"
	mount "$tmp" /tmp
	mount "$tmp" /var/tmp
}

# PATH: the container's file for its last word. Below /dev, which is the node's, only where the node has one.
message() {
	[[ $1 != /dev/* || -f $1 ]] || return 0
	mkdir -p "$dir/message" && : >"$dir/message/$name"
	if [[ $tmp && $1 =~ ^(/var)?/tmp/(.+) ]]; then
		mkdir -p "$(dirname -- "$tmp/${BASH_REMATCH[2]}")"
		: >"$tmp/${BASH_REMATCH[2]}"
	fi
	mount "$dir/message/$name" "$1"
}

mount() {
	local from=$1 to=$2
	case $from$to in
	*[,:\"\\]*) # --bind would cut these; --mount reads CSV
		binds+=(--mount "type=bind,\"source=${from//\"/\"\"}\",\"destination=${to//\"/\"\"}\"${3:+,$3}")
		;;
	*) binds+=(--bind "$from:$to${3:+:$3}") ;;
	esac
}

# The words that run the container; its variables go into the environment.
container_words() {
	local entry key value inside=() verb='exec'
	unset ${!APPTAINERENV_@} ${!SINGULARITYENV_@}
	[[ $image == docker://* ]] || unset TERM {HTTP,HTTPS,FTP,ALL,NO}_PROXY {http,https,ftp,all,no}_proxy # else passed
	for entry in "${image_env[@]}" "${env[@]}"; do
		key=${entry%%=*}
		case $key in
		HOME | UID | EUID | GID | '' | [!A-Za-z_]* | *[!A-Za-z0-9_]*) inside+=("$entry") ;; # it cannot set these
		*)
			value=${entry#*=}
			[[ ! $evaluates ]] || as_shell_text
			export "$env_prefix$key=$value"
			;;
		esac
	done
	[[ $command ]] || verb='run'
	if [[ ${inside[*]} ]]; then
		[[ $command ]] || argv=(/.singularity.d/runscript "${argv[@]}")
		[[ ${argv[0]} != *=* ]] || argv=(sh -c 'exec "$@"' sh "${argv[@]}")
		argv=(env -- "${inside[@]}" "${argv[@]}")
		verb='exec'
	fi
	words=("$runtime" --quiet "$verb" "${options[@]}" "${binds[@]}" ${workdir:+--pwd "$workdir"} "$image" "${argv[@]}")
}

last_words() { tail -c 8192 | sed -n 's/^\(\x1b\[[0-9;]*m\)*\(FATAL:   \|ERROR  : \)//p' | tail -n 1; }

# Starts the container where no program can run.
try() {
	local argv=("$@")
	container_words
	timeout --foreground -k 5 60 "${words[@]:0:3}" --security "seccomp:$scratch/$name.filter" "${words[@]:3}" 2>&1
}

# With too little memory the runtime itself dies at its start, as Go does, in its first words, or without any.
examine_death() {
	local said again limit
	said=$(head -c 8192 "$2" | grep -a -m 1 -E '^(fatal error: |runtime/cgo: pthread_create failed)')
	[[ $said || ($code != 2 && ! -s $2) ]] || return 0
	for again in 1 2 3; do # at the limit it may start now and then
		(
			load "$1"
			command=1 try "/$token" >/dev/null
		)
		case $? in
		2 | 134 | 139)
			limit=$(ulimit -d)
			[[ $limit == unlimited ]] || limit="$limit KiB of data, ulimit -d"
			because "the container runtime died at its start: ${said:-it said nothing} (memory: $limit)"
			code=126
			return
			;;
		esac
	done
}

# Why container $1 was not started: the end of log $2, where it fails so again.
examine() {
	local said again reason=''
	why=$(cat "$scratch/$name.why" 2>/dev/null && rm "$scratch/$name.why")
	case $code in 1 | 2 | 134 | 139 | 255) ;; *) return 0 ;; esac
	echo '{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["execve"],"action":"SCMP_ACT_ERRNO"}]}' >"$scratch/$name.filter"
	if [[ $code != 1 && $code != 255 ]]; then
		examine_death "$@"
		return
	fi
	said=$(last_words <"$2") && [[ $said ]] || return 0
	again=$(
		load "$1"
		command=1 try "/$token" | grep -q seccomp || try "${argv[@]}" | last_words # it warns where it has none
	)
	again=${again/failed: *operation not permitted/failed: }
	[[ $again && ${said//[0-9]/} == "${again//[0-9]/}"* ]] || return 0
	case $said in
	*' not found in $PATH' | 'stat '*) code=127 ;;
	'Unable to handle '*) code=125 reason=ErrImagePull ;;
	*) code=126 ;;
	esac
	because "$said" "$reason"
}

# ROOT BELOW SUBPATH TARGET [ro]: binds what lies in a volume. ROOT is the admin's own path and may hold links; what is below
# it a container may have planted, and a link that leads out of ROOT, or of the volume, would bind the host in. Directories of
# the subPath that lack are made.
volume() {
	local root base end
	walks+=("${#binds[@]}" "$1" "$2" "$3" "$4" "${5:-}")
	root=$(realpath -e -- "$1" 2>/dev/null) || not_mounted "there is no $1 on $HOSTNAME, which is to be mounted"
	root=${root%/}
	base=$(realpath -e -- "${root:-/}${2:+/$2}" 2>/dev/null) ||
		not_mounted "there is no $1${2:+/$2} on $HOSTNAME, which is to be mounted"
	base=${base%/}
	[[ $base/ == "$root"/* ]] || not_mounted "the volume's path $2 leads out of $1, by a link"
	end=$base
	[[ ! $3 ]] || end=$(realpath -m -- "$base/$3" 2>/dev/null)
	[[ $end/ == "$base"/* ]] || not_mounted "the subPath $3 leads out of its volume, by a link"
	walk "${5:-}"
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
	for ((i = 0; i < ${#given[@]}; i += 6)); do
		first=("${binds[@]}") binds=()
		volume "${given[@]:i+1:5}"
		binds=("${first[@]:0:given[i]}" "${binds[@]}" "${first[@]:given[i]+2}")
	done
}

prepare() {
	container_words
}

judge() { :; }

ask() { kill -s TERM "${pids[$1]}" 2>/dev/null; }

main "$@"
