#!/bin/bash
#SBATCH --partition=workq
#SBATCH --nodes=2
#SBATCH --ntasks=8
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=1024M
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@90
# shellcheck disable=SC2016,SC2034,SC2086,SC2317,SC2329
# $1: the Pod's directory. --export=NONE must not reach srun.
export SLURM_EXPORT_ENV=ALL SRUN_CPUS_PER_TASK=1

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
mpi=0 # the container whose launchers start ranks of it
covers=(mpirun) # launchers that it starts
targets=(/scratch) # paths of its volumes
threads=1 # OMP_NUM_THREADS of a rank, where a launch and the Job say none
profile=mpi # of the site, for MPI
launcher=srun
launcher_path=/opt/mpi/bin/launcher
launcher_signal=
host_line=''
lines_per_rank=1
for_mapping='--distribution=%s' for_binding='--cpu-bind=%s' for_none=''
for_per_node='--ntasks-per-node=%s' for_nodes='--nodes=%s' for_cores='--cpus-per-task=%s'
for_stdin='--input=0' for_stdin_to_all=''
granted=() # devices of all nodes that are known, as host-gpuN
launch() {
	launcher_env=(OMPI_MCA_btl_vader_single_copy_mechanism=none MPIR_CVAR_CH4_CMA_ENABLE=0 UCX_POSIX_USE_PROC_LINK=n 'UCX_TLS=^cma')
	launcher_words=(--ntasks="$ranks" --cpus-per-task=1 --export=ALL --kill-on-bad-exit=1 --mpi=pmix)
}

container_0() { # main
	command=1
	argv=(bash -c 'source /opt/env.sh && mpirun -np 8 ./solver | tee log')
	env=(OMP_NUM_THREADS=8)
	image=/sif/image.sif
	options=(--cleanenv --no-home --no-eval --writable-tmpfs)
	shared_tmp
	mkdir -p "$dir"/volumes/scratch
	mount "$dir"/volumes/scratch /scratch
	message /dev/termination-log
}

# runtime 1: base apptainer images pairs talk mpi launches covers launchwords launcheroptions

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

# Has the runtime write image $2 to file $1. Where it cannot, that is why the container is not started.
pull_to() {
	local no_https=() said=$scratch/$name.pull
	[[ ! ${known[insecure]} && " ${options[*]} " != *' --no-https '* ]] || no_https=(--no-https)
	"$runtime" pull "${no_https[@]}" "${@:3}" "$1" "$2" >"$said" 2>&1 &
	wait "$!" && return # a signal ends a wait
	said=$(last_words <"$said")
	because "$2 could not be pulled on $HOSTNAME: ${said:-$runtime gave no reason}" ErrImagePull
	return 1
}

not_pulled() {
	say "${why#*\"message\":}"
	printf %s "$why" >"$scratch/$name.why"
	exit 125
}

# Once for all ranks, which would each pull the image.
pull() {
	[[ -e $dir/image.sif ]] || pull_to "$dir/image.sif" "$image" || not_pulled
	image=$dir/image.sif
}

# The image is pulled in the container's session, so that what ends the container ends that.
pull_first() {
	[[ -e ${known[path]} ]] || ahead=(/bin/bash -c "LC_ALL=C
		$(declare -p known options name scratch runtime job_id)
		$(declare -f say because last_words pull_to not_pulled fetch failed_just_now pull_claimed release holder older take take_over give_signs)
		fetch && exec \"\$@\"" "$name")
}

# Pulls the image into the cache, once for all jobs: who holds the claim pulls, the others wait. imagepull does the same.
fetch() {
	local path=${known[path]} cache=${known[cache]} token=$job_id.$RANDOM$RANDOM$RANDOM why='' stem claim half
	stem=${path%.sif}
	claim=$stem.claim half=$cache/.${stem##*/}.$token.sif
	trap 'release; exit 143' TERM
	(umask 077 && mkdir -p "$cache")
	until [[ -e $path ]]; do
		failed_just_now && not_pulled
		if take "$claim" || take_over; then
			[[ -e $path ]] || pull_claimed
			release
			[[ ! $why ]] || not_pulled
		else
			sleep 2
		fi
	done
	trap - TERM
}

failed_just_now() {
	local line
	! older "$stem.failed" 30 && line=$(head -c 4096 "$stem.failed" 2>/dev/null) && [[ $line == *'"permanent"'* ]] || return
	why=,${line#\{}
	why=${why%,*\"permanent\"*}
}

pull_claimed() {
	local beat
	rm -f "$stem.failed" "$cache/.${stem##*/}."*.sif
	give_signs >/dev/null 2>&1 &
	beat=$!
	if pull_to "$half" "${known[source]}" --disable-cache; then
		ln -T "$half" "$path" 2>/dev/null || [[ -e $path ]] || mv -T "$half" "$path"
	else
		echo "{${why#,},\"permanent\":false}" >"$half" && mv -T "$half" "$stem.failed"
	fi
	kill "$beat"
}

release() {
	rm -f "$half"
	[[ $(holder "$claim") != "$token" ]] || rm -f "$claim"
}

holder() {
	local line=''
	{ read -r line <"$1"; } 2>/dev/null
	echo "$line"
}

# Whether a file is older than so many seconds, by the file server's clock; no when it is not there.
older() {
	local changed
	changed=$(stat -c %Y "$1" 2>/dev/null) && touch "$cache/.now" && (($(stat -c %Y "$cache/.now") - changed > $2))
}

# ln can fail although it linked: a count of 2 proves it.
take() {
	local taken=1
	if ! printf '%s\n{}\n' "$token" 2>/dev/null >"$1.$token"; then
		rm -f "$1.$token"
		because "images are kept in $cache, where nothing can be written on $HOSTNAME: is there a quota?" ErrImagePull
		not_pulled
	fi
	ln -T "$1.$token" "$1" 2>/dev/null
	[[ $(stat -c %h "$1.$token") != 2 && $(holder "$1") != "$token" ]] || taken=0
	rm -f "$1.$token"
	return "$taken"
}

# Replaces the claim of somebody who gives no signs of life. Only one may: who holds the claim to that very claim.
take_over() {
	local held over taken=1
	older "$claim" 120 || return
	held=$(holder "$claim")
	over=$claim.$(printf %s "$held" | sha256sum | head -c 16).over
	! older "$over" 120 || rm -f "$over"
	take "$over" || return
	[[ $(holder "$claim") != "$held" ]] ||
		{ printf '%s\n{}\n' "$token" >"$claim.$token" && mv -T "$claim.$token" "$claim" && taken=0; }
	rm -f "$over"
	return "$taken"
}

give_signs() {
	while kill -0 $$ && [[ $(holder "$claim") == "$token" ]]; do
		touch "$claim"
		sleep 15
	done
}

pairs=( # launcher, library, what to change; the first that matches
	'openmpi-4.* openmpi-[45].* '
	'openmpi-5.* openmpi-5.* '
	'openmpi-5.* openmpi-4.* use an image with Open MPI 5, or an MPI profile with the mpirun of an Open MPI 4'
	'openmpi-[45].* mpich-* use an image with Open MPI, or an MPI profile with Hydra'\''s mpiexec or with srun --mpi=pmi2'
	'openmpi-[45].* intelmpi-* use an image with Open MPI, or an MPI profile with Hydra'\''s mpiexec or with srun --mpi=pmi2'
	'hydra-* mpich-* '
	'hydra-* intelmpi-* '
	'hydra-* openmpi-[45].* use an image with MPICH, or an MPI profile with Open MPI'\''s mpirun or with srun --mpi=pmix'
	'intelmpi-* intelmpi-* '
	'intelmpi-* mpich-* '
	'intelmpi-* openmpi-[45].* use an image with Intel MPI or MPICH, or an MPI profile with Open MPI'\''s mpirun or with srun --mpi=pmix'
	'srun-pmix* openmpi-[45].* '
	'srun-pmix* mpich-* give the MPI profile the option --mpi=pmi2, or use an image with Open MPI'
	'srun-pmix* intelmpi-* give the MPI profile the option --mpi=pmi2, or use an image with Open MPI'
	'srun-pmi2 mpich-* '
	'srun-pmi2 intelmpi-* '
	'srun-pmi2 openmpi-5.* give the MPI profile the option --mpi=pmix, or use an image with MPICH'
	'srun-none mpich-* give the MPI profile the option --mpi=pmi2'
	'srun-none intelmpi-* give the MPI profile the option --mpi=pmi2'
	'srun-none openmpi-[45].* give the MPI profile the option --mpi=pmix'
)

# Whether launcher and image can talk is settled before ranks start: ranks that cannot may each run alone and end well.
settle() {
	local served='' launcher_name='' library='' library_name='' certain='' remedy='' verdict='unknown' pair globs
	((ranks > 1)) || return 0 # one rank needs nobody
	served_by
	found_in_image || return 0
	for pair in "${pairs[@]}"; do
		read -r -a globs <<<"$pair"
		# shellcheck disable=SC2053
		[[ $served == ${globs[0]} && $library == ${globs[1]} ]] || continue
		remedy=${pair#* * } verdict=good
		[[ $remedy == '' ]] || verdict=bad
		break
	done
	[[ $verdict != good ]] || return 0
	if [[ $verdict == bad && $certain ]]; then
		cannot_start 126 "$launcher_name on $HOSTNAME cannot start ranks of $library_name, which the program in $image uses: $remedy"
	fi
	say "it is not known whether $launcher_name on $HOSTNAME can start the ranks of this program together: $image has $library_name"
	notes=$((900000000 + ${pipe##*.})) # out of the way of the main loop's own numbers
	note running ",\"container\":\"$name\",\"restart\":${pipe##*.},\"reason\":\"MPIUnknown\""
}

# The launcher as family-version, by its own words, whatever the profile calls it. Of srun it is the kind of PMI.
served_by() {
	local text word last='' kind=''
	launcher_name="the launcher $path"
	text=$(timeout 20 "$path" --version 2>/dev/null </dev/null)
	if [[ $text =~ \(Open\ MPI\)\ ([0-9]+\.[0-9][0-9a-z.]*) ]]; then
		served=openmpi-${BASH_REMATCH[1]} launcher_name="${path##*/} of Open MPI ${BASH_REMATCH[1]}"
	elif [[ $text =~ HYDRA.*Version:\ +([0-9]+\.[0-9][0-9a-z.]*) ]]; then
		served=hydra-${BASH_REMATCH[1]} launcher_name="${path##*/} of Hydra ${BASH_REMATCH[1]}"
	elif [[ $text =~ Intel.*MPI.*Version\ ([0-9][0-9.]*) ]]; then
		served=intelmpi-${BASH_REMATCH[1]} launcher_name="${path##*/} of Intel MPI ${BASH_REMATCH[1]}"
	elif [[ $text =~ ^slurm[^\ ]*\ ([0-9][0-9.]*) ]]; then
		launcher_name="of Slurm ${BASH_REMATCH[1]}"
		for word in "${launcher_words[@]}"; do
			[[ $last != --mpi ]] || kind=$word
			[[ $word != --mpi=* ]] || kind=${word#*=}
			last=$word
		done
		kind=${kind:-$SLURM_MPI_TYPE}
		if [[ ! $kind && $(timeout 20 scontrol show config 2>/dev/null) =~ MpiDefault\ *=\ *([a-z0-9_]+) ]]; then
			kind=${BASH_REMATCH[1]}
		fi
		served=srun-${kind:-none} launcher_name="srun --mpi=${kind:-none} $launcher_name"
	fi
}

# The MPI that the program uses, as family-version. "certain": the program links it. Fails where it uses none.
found_in_image() {
	local line key value family='' number mpis=() titles=() kind='' best=0
	local -A counts=()
	while IFS= read -r line; do
		key=${line%% *} value=${line#* }
		case $key in
		certain) certain=1 ;;
		program) kind=$value ;;
		starts)
			cannot_start 2 "${argv[0]} starts $value itself, and so would each of $ranks ranks; if it is to start once, give the Job the hint batchgate.dev/launcher: inside"
			;;
		unwritable) say "ranks start in $value, where they cannot write: set workingDir to a path in a volume" ;;
		library)
			name_library
			family='' best=0 counts=()
			;;
		word)
			case $value in
			'Open MPI v') family=openmpi ;;
			'MPICH V') family=${family:-mpich} ;;
			MVAPICH) family=mvapich ;;
			Intel*) family=intelmpi ;;
			libpmix) counts[pmix]=1 ;;
			I_MPI_PMI) counts[pmi]=1 ;;
			'' | 127.* | *[!0-9a-z.]*) ;; # the image may say anything, and older shells would run what a subscript holds
			*) counts[n$value]=$((${counts[n$value]:-0} + 1)) ;;
			esac
			;;
		esac
	done < <(look_into_image)
	case ${#mpis[@]}:$kind in
	0:binary | 0:script) return 1 ;; # nothing of MPI
	0:*) library='' library_name='an MPI that could not be looked for' certain='' ;;
	1:*) library=${mpis[0]} library_name=${titles[0]} ;;
	*)
		printf -v library_name '%s, ' "${titles[@]}"
		library='' library_name="several MPIs: ${library_name%, }" certain=''
		;;
	esac
	[[ $library != *+pmix* ]] || library_name+=' with PMIx'
}

# A library's own version stands in it more often than those of what it was built with.
name_library() {
	local known version='' title count
	for number in "${!counts[@]}"; do
		count=${counts[$number]}
		[[ $number != n* ]] || ((count <= best)) || best=$count version=${number#n}
	done
	case $family in
	openmpi) title="Open MPI ${version:-of some version}" ;;
	mpich)
		[[ ! ${counts[pmix]} ]] || family=mpich+pmix
		title="MPICH ${version:-of some version}"
		;;
	intelmpi)
		[[ ! ${counts[pmi]} ]] || family=intelmpi+pmi
		title='Intel MPI' version=''
		;;
	mvapich) title=MVAPICH version='' ;;
	*) title='an MPI that does not say which it is' version='' ;;
	esac
	for known in "${mpis[@]}"; do [[ $known != "$family-$version" ]] || return; done
	mpis+=("$family-$version") titles+=("$title")
}

look_into_image() {
	argv=(/bin/sh -c "$(declare -f look starts_launcher begin linked fingerprint); look \"\$@\"" look "${argv[@]}")
	env=("${launcher_env[@]}" "${env[@]}") # as ranks have them: they may lead to an MPI of the site
	container_words
	timeout --foreground -k 5 60 "${words[@]}" 2>/dev/null </dev/null
}

# Runs in the image, which may have no more than a POSIX shell and grep.
look() {
	PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin # the program's own may lead to nothing else
	command -v grep >/dev/null || return 0 # nothing is known then
	LC_ALL=C
	export LC_ALL
	[ -w . ] || echo "unwritable $PWD"
	set -f
	found=' ' kind=binary first=${1##*/} left=40
	case $first in
	sh | *bash | dash | ksh | zsh | csh | tcsh | env | nice | time | timeout | stdbuf | numactl | taskset | xargs) kind=script ;;
	python* | perl* | ruby* | julia* | Rscript | R | lua* | node | java | octave* | tclsh*) kind=script ;;
	esac
	begin "$(command -v -- "$1")"
	case $magic in
	?ELF*) ;;
	*) kind=script ;;
	esac
	program=$1
	[ "$kind" = script ] || set -- "$1" # the others are its arguments
	case $magic in
	'#!'*) starts_launcher "$(command -v -- "$1")" ;;
	esac
	# A shell's text is looked through word by word: one of them may be the program.
	# shellcheck disable=SC2048
	for word in $*; do
		word=${word%[;\)\}]}
		case $word in
		*mpi4py*) uses_python=1 ;;
		'' | -* | *[!A-Za-z0-9_./+-]*) continue ;;
		esac
		[ "$left" -gt 0 ] || break
		left=$((left - 1))
		file=$(command -v -- "$word")
		[ -f "$file" ] || file=$word
		[ -f "$file" ] || continue
		linked "$file"
		case $first$word in
		python*.py) ! grep -q mpi4py "$file" 2>/dev/null || uses_python=1 ;;
		esac
	done
	case $first${uses_python:+ mpi4py} in
	python*mpi4py)
		file=$("$program" -c 'import importlib.util as u; print(u.find_spec("mpi4py.MPI").origin)' 2>/dev/null)
		[ ! -f "$file" ] || linked "$file"
		;;
	esac
	if [ "$found" != ' ' ]; then
		echo certain
	elif [ "$kind" = script ]; then
		set +f
		for file in $(grep -a -o '/[A-Za-z0-9_./+-]*/libmpi\(ch\|_mt\|_abi\)\{0,1\}\.so\.[0-9]*' /etc/ld.so.cache 2>/dev/null) \
			/usr/lib*/libmpi.so.?? /usr/lib*/*/libmpi.so.?? /usr/lib*/*/lib/libmpi*.so.?? /usr/local/lib*/libmpi*.so.?? \
			/opt/*/lib*/libmpi*.so.?? /opt/*/*/lib*/libmpi*.so.??; do
			case ${file##*/} in
			libmpi.* | libmpich.* | libmpi_mt.* | libmpi_abi.*) fingerprint "$file" ;; # the others are for a language
			esac
		done
	fi
	[ "$found" != ' ' ] || [ ! "$lost" ] || kind=unknown
	echo "program $kind"
}

# A script that would start a launcher in each rank. Comments and what it prints are none.
starts_launcher() {
	line=$(grep -v '^[[:space:]]*\(#\|echo\|printf\)' "$1" 2>/dev/null |
		grep -o -m 1 '\(^\|[[:space:];&|(]\)\(mpirun\|mpiexec\|orterun\|prterun\|srun\)[[:space:]]')
	line=${line%?}
	[ ! "$line" ] || echo "starts ${line#[[:space:];&|(]}"
}

# The first bytes of a file, which may be large and without lines.
begin() { magic=$(head -c 4 2>/dev/null <"$1") || IFS= read -r magic <"$1"; } 2>/dev/null

# The MPI libraries of a binary, or the one within it.
linked() {
	begin "$1"
	case $magic in
	?ELF*) ;;
	*) return ;;
	esac
	# shellcheck disable=SC2013
	for path in $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*/libmpi\(ch\|_mt\|_abi\)\{0,1\}\.so[^ ]*'); do
		fingerprint "$path"
	done
	[ "$found" != ' ' ] || ! grep -a -q 'MPICH Version:\|Open MPI v%d' "$1" || fingerprint "$1"
	[ "$found" = ' ' ] || return 0
	# shellcheck disable=SC2013
	for name in $(grep -a -o 'libmpi\(ch\|_mt\|_abi\)\{0,1\}\.so\.[0-9]*' "$1"); do
		for path in $(echo "$LD_LIBRARY_PATH" | tr : ' ') /usr/lib /usr/lib64 /usr/local/lib /lib; do
			[ ! -f "$path/$name" ] || fingerprint "$path/$name"
		done
		lost=1 # unless one was found: it lies where only the program's own loader looks
	done
}

fingerprint() {
	for seen in $found; do [ ! "$1" -ef "$seen" ] || return 0; done
	[ -f "$1" ] || return 0
	found="$found$1 "
	# Intel MPI speaks any launcher's PMI by a library that is named to it, or that it finds itself.
	[ ! "$I_MPI_PMI_LIBRARY" ] && ! grep -a -q libpmix /etc/ld.so.cache 2>/dev/null || echo word I_MPI_PMI
	grep -a -o 'Open MPI v\|MPICH V\|MVAPICH\|Intel(R) MPI\|libpmix\|[A-Z]_[0-9.]*\|[1-9][0-9]*\.[0-9]\{1,2\}\.[0-9]\{1,2\}[0-9a-z]*' "$1" |
		while IFS= read -r text; do echo "word $text"; done
	echo library
}

# The places for ranks that the batch system gave. Hosts stand in the order of their first line, with the slots of all their
# lines: hosts may come again (rank 0 is on the first).
find_places() {
	local host
	if [[ ! $host_line ]]; then
		places=${SLURM_NTASKS:-${ranks:-1}} nodes_given=${SLURM_JOB_NUM_NODES:-1}
		return
	elif [[ ! -r ${PBS_NODEFILE:-} ]]; then
		cannot_start 1 'there is no PBS_NODEFILE to take hosts from'
	fi
	while read -r host _ || [[ $host ]]; do
		[[ $host ]] || continue
		[[ ${slots[$host]} ]] || order+=("$host")
		slots[$host]=$((${slots[$host]:-0} + 1))
	done <"$PBS_NODEFILE"
	# A rank's cores lie on one host: what is left over on each is no place.
	for host in "${order[@]}"; do
		((slots[$host] < lines_per_rank)) || ((places += slots[$host] / lines_per_rank, ++nodes_given))
	done
}

write_hosts() {
	local host
	for host in "${order[@]}"; do
		((slots[$host] >= lines_per_rank)) || continue
		# shellcheck disable=SC2059
		printf "$host_line\n" "$host" "$((slots[$host] / lines_per_rank))"
	done >"$scratch/hosts"
}

# A /tmp for the ranks of all nodes.
shared_tmp() { mount_tmp "$dir/$name.tmp"; }

cannot_start() { # CODE SENTENCE
	local why
	say "$2"
	because "$2"
	printf %s "$why" >"$scratch/$name.why"
	exit "$1"
}

prepare() {
	if [[ $1 == "$mpi" ]]; then
		start_ranks
	else
		container_words
	fi
}

start_ranks() {
	local path self launcher_words=() launcher_env=() places=0 nodes_given=0 order=()
	local -A slots=()
	: >"$dir/codes"
	find_places
	[[ $(type -t fit) != function ]] || fit
	if ((places < ranks)) && [[ ! $crowded ]]; then
		[[ $host_line ]] || cannot_start 1 "Slurm gave places for $places ranks, and $ranks are to run"
		cannot_start 1 "the batch system gave places for $places ranks, and $ranks are to run"
	fi
	[[ ! $host_line ]] || write_hosts
	launch
	[[ $(type -t place) != function ]] || place
	path=$(type -P "${launcher_path:-$launcher}") ||
		cannot_start 127 "there is no ${launcher_path:-$launcher} on $HOSTNAME; PATH is $PATH"
	[[ $image != docker://* ]] || pull
	[[ ! ${ahead[*]} ]] || pull_before_ranks
	[[ ! ${launcher_env[*]} ]] || export "${launcher_env[@]}"
	[[ $(type -t settle) != function ]] || (settle) || exit
	[[ ! -e $scratch/ending ]] || exit 143 # asked to end meanwhile
	[[ ! $devices_per_node ]] || hand_on_devices
	write_rank
	hand_on_words 0
	words=("$path" "${launcher_words[@]}" /bin/bash "$dir/rank")
	[[ $(type -t add_programs) != function ]] || add_programs
	: >"$dir/stop"
	: >"$dir/up"
	self=$BASHPID
	(await_ranks "$self" >/dev/null 2>&1 6>&- 7>&- 9>&- &)
}

# "settle" looks into the image and "await_ranks" counts seconds: both only when it is there. Who ends the container
# meanwhile ends the pull, in a session of its own, whose number takes the place of the launcher's.
pull_before_ranks() {
	local puller code
	: >"$scratch/pulls"
	setsid "${ahead[@]}" true </dev/null 6>&- 8>&- 9>&- &
	puller=$!
	echo "$puller" >"$scratch/$name.pid"
	echo "pid $mpi $puller ${pipe##*.}" >&9
	wait "$puller"
	code=$?
	rm "$scratch/pulls"
	((code == 0)) || exit "$code"
	echo "-$puller" >/proc/$$/fd/7 # the guard: a session of that number may be somebody else's soon
	ahead=()
}

# A launcher may wait for ever for a node that it cannot reach: mpirun and Hydra then start no rank at all.
await_ranks() { # PID of the launcher
	local word='' hosts start_limit=$((60 + ranks / 10))
	trap '' TERM INT HUP USR1 USR2
	while kill -0 "$1"; do
		read -r word <"$dir/up"
		[[ ! $word ]] || return
		((start_limit-- > 0)) || break
		pause 1
	done
	((start_limit < 0)) || return
	hosts=$SLURM_JOB_NODELIST
	[[ ! $host_line ]] || hosts=$(paste -s -d ' ' "$scratch/hosts")
	say "$launcher has started no rank in $((60 + ranks / 10)) s: a node cannot be reached, or starts nothing. They are: $hosts" 2>"$pipe"
	echo 1 >>"$dir/codes"
	kill -TERM "$1"
	pause 5
	end_session "$1"
}

# The code of the rank that failed first. The launcher's may be that of a rank which it has killed for it.
judge() {
	local first=''
	[[ $1 == "$mpi" ]] || return
	rm -rf "$dir/$name.tmp"
	((code)) || return
	{ read -r first <"$dir/codes"; } 2>/dev/null
	[[ $first == *[!0-9]* ]] || code=${first:-$code}
}

# Assignments that any bash reads back, byte for byte: NAME, and NAME VALUE...
scalar() { printf "%s='%s'\n" "$1" "${!1//\'/$quote}"; }

array() {
	printf '%s=(' "$1"
	shift
	(($# == 0)) || printf " '%s'" "${@//\'/$quote}"
	echo ' )'
}

# Command and environment go to the ranks through the launcher's environment, as they may hold secrets: a file would stay.
hand_on_words() { # PROGRAM, of several from 0 on
	local text i
	text=$(printf '%s\0' "$workdir" "${#argv[@]}" "${argv[@]}" "${env[@]}" | base64 -w 0)
	for ((i = 0; i * 98304 < ${#text}; i++)); do # one variable holds 128 KiB at most
		export "BATCHGATE_WORDS_$1_$i=${text:i*98304:98304}"
		[[ $launcher != mpirun ]] || launcher_words+=(-x "BATCHGATE_WORDS_$1_$i")
	done
}

take_words_over() { # PROGRAM
	local i word text='' all=()
	for ((i = 0; ; i++)); do
		word=BATCHGATE_WORDS_$1_$i
		[[ ${!word} ]] || break
		text+=${!word}
	done
	if [[ ! $text ]]; then
		say "the launcher hands no variables on to ranks on $HOSTNAME: look at the options and env of the site's MPI profile"
		exit 1
	fi
	unset ${!BATCHGATE_WORDS_@}
	shopt -s lastpipe
	printf %s "$text" | base64 -d | while IFS= read -r -d '' word; do all+=("$word"); done
	shopt -u lastpipe
	workdir=${all[0]} argv=("${all[@]:2:all[1]}") env=("${all[@]:all[1]+2}")
}

# The launcher starts this file once for each rank, on every node.
write_rank() {
	local variable quote="'\\''"
	{
		printf '#!/bin/bash\nLC_ALL=C\n'
		for variable in dir name command tmp image runtime env_prefix evaluates gpus first_gpu launcher_signal \
			device_variable device_files devices_per_node devices_per_rank ranks_per_share launcher limits; do
			scalar "$variable"
		done
		array launcher_env "${launcher_env[@]}"
		array image_env "${image_env[@]}"
		array options "${options[@]}"
		array binds "${binds[@]}"
		array walks "${walks[@]}"
		array granted "${granted[@]}"
		[[ ! $evaluates ]] || declare -f as_shell_text
		declare -f rank take_limits take_words_over container_words mount make_place rank_devices take_share find_devices too_few give_devices end_session open_pipes guard say watch pause \
			volume walk walk_again not_mounted because
		echo 'rank "${1:-0}"'
	} >"$dir/.rank" && mv -T "$dir/.rank" "$dir/rank" || exit 1
}

# Those of the shell that started the launcher: soft limits by their letters, where the node's hard ones let it.
take_limits() {
	local i list
	read -r -a list <<<"${limits:-}"
	for ((i = 0; i + 1 < ${#list[@]}; i += 2)); do
		case ${list[i]}${list[i + 1]} in
		umask*) umask "${list[i + 1]}" ;;
		c[1-9]*) ;; # shells count the size of cores in different units
		*) ulimit -S "-${list[i]}" "${list[i + 1]}" ;;
		esac
	done 2>/dev/null
}

# One rank: its launcher's variables into the container, a signal or the file "stop" as TERM, its exit code to "codes".
rank() { # PROGRAM
	local variable entry scratch pid='' asked='' killed='' code='' worker devices='' passed=()
	umask 022
	cd / || exit 1
	take_words_over "$1"
	[[ -s $dir/up ]] || echo up >"$dir/up"
	[[ ! ${launcher_env[*]} ]] || export "${launcher_env[@]}"
	# The descriptor over which Hydra and Slurm's PMI-2 talk to a rank may be any, also one of those used below.
	[[ ${PMI_FD:-6} == 6 ]] || { exec 6<&"$PMI_FD" {PMI_FD}<&- && PMI_FD=6; }
	for variable in ${!OMPI_@} ${!PMIX_@} ${!PMI_@} ${!PMI2_@} ${!PRTE_@} ${!HYDRA_@} ${!HYDI_@} ${!I_MPI_@} ${!MPI_LOCAL@} \
		${!MPICH_@} ${!MV2_@} ${!SLURM_@} ${!UCX_@} ${!FI_@} ${!OMP_@}; do
		passed+=("$variable=${!variable}")
	done
	for entry in "${launcher_env[@]}"; do passed+=("$entry"); done
	env=("${passed[@]}" "${env[@]}")
	[[ ! $devices_per_node ]] || rank_devices
	[[ ! ${walks[*]} ]] || walk_again
	if [[ $runtime && -d ${PMIX_SERVER_TMPDIR:-} ]]; then
		make_place "$PMIX_SERVER_TMPDIR"
		mount "$PMIX_SERVER_TMPDIR" "$PMIX_SERVER_TMPDIR"
	fi
	container_words
	scratch=$(mktemp -d -p "${TMPDIR:-/tmp}" batchgate.XXXXXXXX 2>/dev/null || mktemp -d -p /tmp batchgate.XXXXXXXX) || exit 1
	open_pipes
	rmdir "$scratch" # a batch system that kills all at once must leave nothing
	trap : PIPE      # not ignored: programs would inherit that
	trap 'asked=1; [[ ! $pid ]] || kill -TERM "$pid" 2>/dev/null' USR1
	trap 'killed=1; kill -USR1 $$' TERM # the launcher's own, as another rank has failed
	set -m
	(
		set +m
		exec 5>&2 7>&- 2>/dev/null # where bash would tell how its child has ended
		(
			echo "$BASHPID" >&9
			take_limits
			exec setsid "${words[@]}" 2>&5 5>&- 8>&- 9>&-
		)
		echo "$?" >&9
	) &
	worker=$!
	set +m
	[[ $launcher_signal ]] || watch &
	read -r -t 60 -u 9 pid
	echo "$pid" >&7
	[[ ! $asked ]] || kill -TERM "$pid"
	while wait "$worker"; kill -0 "$worker" 2>/dev/null; do :; done # a signal ends a wait
	read -r -t 1 -u 9 code
	code=${code:-137}
	[[ $killed || $code == 0 ]] || echo "$code" >>"$dir/codes"
	end_session "$pid"
	# The first rank that fails makes the launcher kill the others: those that were asked a little later need that little.
	[[ ! $asked ]] || pause "$([[ $launcher_signal ]] && echo 1 || echo 4)"
	echo 'done' >&7
	exit "$code"
}

# The place of a mount in the Pod's own /tmp. Where it lacks, the runtime makes it: of ranks that start at once one would fail.
make_place() { # PATH
	local part parts here
	[[ $tmp && $1 =~ ^(/var)?/tmp/(.+) ]] || return 0
	IFS=/ read -r -a parts <<<"${BASH_REMATCH[2]}"
	cd -P "$tmp" || return
	here=$PWD
	for part in "${parts[@]}"; do
		here+=/$part
		[[ -e ./$part || -L ./$part ]] || mkdir "./$part" 2>/dev/null # another rank may have made it
		cd -P "./$part" 2>/dev/null && [[ $PWD == "$here" ]] || break # a link, which may lead anywhere
	done
	cd /
}

# Opening a file shows what another node has written; a new file may be hidden by this node's cache.
watch() {
	local word number
	trap '' TERM USR1
	exec >/dev/null 2>&1
	# Hydra reaps a rank, which is there until then, when nobody has an end of its pipes; a rank gets more of them than three.
	for number in /proc/"$BASHPID"/fd/*; do
		number=${number##*/}
		((number <= 2 || number == 8 || number == 255)) || exec {number}>&-
	done
	while kill -0 $$ 2>/dev/null; do
		{ read -r word <"$dir/stop"; } 2>/dev/null
		if [[ $word == stop ]]; then
			kill -USR1 $$
			return
		fi
		pause 3
	done
}

ask() {
	if [[ $1 != "$mpi" || -e $scratch/pulls ]]; then
		kill -s TERM "${pids[$1]}" 2>/dev/null
	elif [[ $launcher_signal ]]; then
		kill -s "$launcher_signal" "${pids[$1]}" 2>/dev/null
	else
		echo stop >"$dir/stop"
	fi
}

# A container that starts its ranks itself: its command runs once, and the launchers in it are covered by "cover", which
# hands words, directory, environment, streams and signals to "serve" outside. That starts the site's launcher.
prepare() {
	if [[ $1 == "$mpi" ]]; then
		prepare_launches
	else
		container_words
	fi
}

prepare_launches() {
	local rooms=$scratch/launches quote="'\\''"
	: >"$dir/codes"
	[[ $image != docker://* ]] || pull
	[[ ! ${ahead[*]} ]] || pull_before_ranks
	[[ ! -e $scratch/ending ]] || exit 143 # asked to end meanwhile
	rm -rf "$rooms" "$scratch/model" "$dir/launches" # an earlier run's
	mkdir -m 700 "$rooms" "$scratch/model" "$dir/launches" || exit 1
	mkfifo -m 600 "$rooms/requests" "$scratch/model/"{launchers,requests} || exit 1
	(
		set -m
		receive 5<>"$rooms/requests" 6>&- 7>&- 9>&- >"$pipe" 2>&1 &
		echo "$!" >"$scratch/launches.server"
		echo "group $!" >/proc/$$/fd/7
	)
	((gpus == 0)) || give_devices
	if [[ $runtime ]]; then
		write_cover "$scratch/cover" /run/batchgate
		options+=(--pid)
		start_model
		mount "$rooms" /run/batchgate ro # or the container could put a link to a file of the host in place of a pipe
		cover_launchers
	else
		put_before_path
	fi
	container_words
}

# Outside, in a process group of its own: one process for each launch.
receive() {
	local room number=0 open=()
	trap '' TERM INT HUP USR1 USR2
	set +m
	while read -r -n 64 room <&5; do
		[[ $room && $room != *[!0-9]* && ${#room} -lt 10 && ! -e $rooms/$room ]] || continue
		# A text may ask for any number: it would start processes that its own limits do not count.
		while open=("$rooms"/[0-9]*) && ((${#open[@]} >= 200)); do pause 0.2; done
		((++number))
		mkdir -m 700 "$rooms/$room" || continue
		serve "$rooms/$room" "$number" 5<&- &
	done
}

serve() { # ROOM NUMBER: from the call of "cover" to its end
	local room=$1 here=$scratch/launch.$2 shared=$dir/launches/$2 call=() given=() limits='' first='' pid follower code=1
	mkdir -m 700 "$here" "$shared" && mkfifo -m 600 "$room/"{call,in,out,err,ask,code,ready} || return
	read_call <"$room/call"
	exec 4<"$room/ask" 3<>"$room/code"
	(start_launch <"$room/in" >"$room/out" 2>"$room/err" 3>&- 4<&-) &
	pid=$!
	follow "$pid" >/dev/null 2>&1 3>&- &
	follower=$!
	exec 4<&- 2>/dev/null # where bash would tell how its child has ended
	while wait "$pid"; code=$?; kill -0 "$pid" 2>/dev/null; do :; done
	end_session "$pid"
	if ((code)); then
		{ read -r first <"$shared/codes"; } 2>/dev/null
		[[ $first == *[!0-9]* ]] || code=${first:-$code}
	fi
	: >"$here.over"
	rm -rf "$here" "$here.pid" "$here.asked" "$shared"
	echo "$code" >&3
	wait "$follower" # until "cover" has ended
	rm -rf "$room" "$here.over"
}

read_call() {
	local word
	while IFS= read -r -d '' word; do call+=("$word"); done
	local count=${call[0]:-0}
	if [[ $count == *[!0-9]* ]] || ((${#call[@]} < count + 4)); then exit 1; fi # it was ended on the way
	given=("${call[@]:1:count+1}") workdir=${call[count+2]} limits=${call[count+3]} call=("${call[@]:count+4}")
	[[ $limits != *[!a-z0-9\ ]* ]] || limits=''
}

# Hands on what "cover" is asked, and ends the ranks where it has ended.
follow() { # PID
	local signal turns
	while read -r -n 64 signal <&4; do ask_launch "$1" "$shared"; done
	[[ -e $here.over ]] || ask_launch "$1" "$shared"
	for ((turns = 0; turns < 10; turns++)); do [[ -e $here.over ]] || pause 1; done
	[[ -e $here.over ]] || kill -TERM "$1"
	for ((turns = 0; turns < 5; turns++)); do [[ -e $here.over ]] || pause 1; done
	[[ -e $here.over ]] || { end_session "$1" && kill -KILL "$1"; } # it may wait for somebody to read what it says
}

ask_launch() { # PID DIRECTORY
	if [[ ! -e $2/up ]]; then # its launcher is not there yet
		kill -TERM "$1"
	elif [[ $launcher_signal ]]; then
		kill -s "$launcher_signal" "$1"
	else
		echo stop >"$2/stop"
	fi
}

# One launch, by the launcher's own words. Words without a program are the site's launcher's to answer.
start_launch() {
	local scratch=$here dir=$shared name=$name said=${given[0]##*/}
	local ranks='' per_node='' nodes='' cores='' mapping='' binding='' crowded='' settings=()
	local line=("${given[@]}") firsts=() shares=() everywhere=() directory=$workdir given_threads='' entry
	for entry in "${env[@]}"; do [[ $entry != OMP_NUM_THREADS=* ]] || given_threads=$entry; done
	command=1 # a rank has a program, also where the container runs the entrypoint of the image
	trap - TERM INT HUP USR1 USR2
	ln -s ../ending "$here/ending"
	[[ ! -e ${here%/*}/ending ]] || exit 143
	case "${#given[@]} ${given[1]}" in
	'1 ' | '2 --version' | '2 -V' | '2 --help' | '2 -h' | '2 -help' | '2 -version')
		answer
		;;
	*)
		read_programs
		take_program 0
		start_ranks
		;;
	esac
	echo "$BASHPID" >"$here.pid"
	exec setsid "${words[@]}" 8>&-
}

answer() {
	local launcher_words=() launcher_env=() path
	launch
	path=$(type -P "${launcher_path:-$launcher}") || cannot_start 127 "there is no ${launcher_path:-$launcher} on $HOSTNAME"
	words=("$path" "${given[@]:1}")
}

# "mpirun -np 1 a : -np 3 b": each program has options, words and a number of its own.
read_programs() {
	local i last
	firsts=(1)
	if [[ $said != srun* ]]; then
		for ((i = 1; i < ${#line[@]}; i++)); do [[ ${line[i]} != : ]] || firsts+=($((i + 1))); done
	fi
	((${#firsts[@]} > 1)) || return 0
	last=${#firsts[@]}
	for ((i = 0; i < last; i++)); do
		take_program "$i"
		[[ $ranks ]] || misread "has several programs (':'), one of them without a number of ranks; write -np N before each"
		shares+=("$ranks")
	done
}

take_program() { # NUMBER
	local end=$((${firsts[$1]} - 1)) next=$(($1 + 1))
	end=$((${firsts[next]:-${#line[@]} + 1} - 1))
	given=("${line[0]}" "${line[@]:firsts[$1]:end-firsts[$1]}")
	ranks='' settings=() workdir=$directory
	take_words
	take_environment
	check_directory
}

# How many ranks, of what the batch system gave: a number, so many on each node, or all places.
fit() {
	local count sum=0
	for count in "${shares[@]}"; do ranks=$((sum += count)); done
	[[ $ranks || ! $per_node ]] || ranks=$((per_node * ${nodes:-$nodes_given}))
	ranks=${ranks:-$places}
	[[ $for_nodes || ! $nodes || $per_node || $mapping ]] || ((ranks % nodes)) || per_node=$((ranks / nodes))
	[[ ! $for_nodes || $nodes || ! $per_node ]] || nodes=$(((ranks + per_node - 1) / per_node)) # else it is not heeded
}

# The launcher's options for it, in the words of the site's.
place() {
	fill "$for_nodes" "$nodes"
	fill "$for_cores" "$cores"
	if [[ $mapping && (! $per_node || $launcher != srun) ]]; then
		placement "$for_mapping" "$mapping"
	else
		fill "$for_per_node" "$per_node"
	fi
	[[ ! $binding ]] || placement "$for_binding" "$binding"
	[[ $binding || $mapping == *[Pp][Ee]=* ]] || fill '' '' "$for_none"
	[[ ! $crowded || $launcher != mpirun ]] || launcher_words+=(--oversubscribe)
	if [[ $said == srun* ]]; then fill '' '' "$for_stdin_to_all"; else fill '' '' "$for_stdin"; fi
	[[ $launcher != srun ]] || { export SLURM_EXACT=1 && unset SLURM_NTASKS_PER_NODE; } # or the first of two would have all cores
}

# The launcher's words for the programs after the first.
add_programs() {
	local i first=0 ranks launcher_words
	((${#shares[@]})) || return 0
	for i in "${!shares[@]}"; do
		launcher_words=()
		[[ $launcher != mpirun ]] || launcher_words+=(-x PATH ${LD_LIBRARY_PATH:+-x LD_LIBRARY_PATH})
		if ((i)); then
			take_program "$i"
			hand_on_words "$i"
		fi
		if [[ $launcher == srun ]]; then
			echo "$first-$((first + shares[i] - 1)) /bin/bash $dir/rank $i"
			first=$((first + shares[i]))
		elif ((i)); then
			words+=(: -n "${shares[i]}" "${launcher_words[@]}" /bin/bash "$dir/rank" "$i")
		fi
	done >"$dir/programs"
	[[ $launcher != srun ]] || words=("${words[@]:0:${#words[@]}-2}" --multi-prog "$dir/programs")
}

fill() { # FORMAT VALUE [WORDS]
	local made=${3:-} list
	# shellcheck disable=SC2059
	[[ ! $1 || ! $2 ]] || printf -v made -- "$1" "$2"
	read -r -a list <<<"$made"
	launcher_words+=("${list[@]}")
}

placement() { # FORMAT WORDS
	local plain='^[A-Za-z0-9][A-Za-z0-9:=,._-]*$' same=''
	[[ $said != srun* ]] || same=srun
	if [[ $1 && $2 =~ $plain && ($launcher == srun && $same || $launcher != srun && ! $same) ]]; then
		fill "$1" "$2"
	else
		say "$said: the placement $2 is unknown to the site's $launcher and is left out"
	fi
}

# Ranks run in containers of their own: what this one has written elsewhere than to volumes and /tmp is not there.
check_directory() {
	local found seen_by_one='what a container writes outside volumes and /tmp is seen by itself alone; write it to one of them'
	[[ " ${options[*]} " == *' --writable-tmpfs '* || " ${options[*]} " == *' --overlay '* ]] || return 0
	! is_shared "$workdir/" || return 0
	# shellcheck disable=SC2016
	found=$(ask_model 'find_program() { command -v -- "$1" >/dev/null || echo none; }' find_program)
	case $found in
	lost*) cannot_start 1 "ranks cannot start in $workdir, which is not in the image: $seen_by_one" ;;
	none) cannot_start 127 "ranks have no ${argv[0]}, which is not in the image: $seen_by_one" ;;
	esac
	[[ $workdir == / || -e ${here%/*}/seen.told ]] || say "ranks start in $workdir of the image: $seen_by_one"
	: >"${here%/*}/seen.told"
}

look_into_image() { ask_model "$(declare -f look starts_launcher begin linked fingerprint)" look; }

# Whether a path lies below a volume, or in /tmp.
is_shared() {
	local target
	for target in "${targets[@]}" ${tmp:+/tmp /var/tmp}; do
		[[ $1 != "${target%/}"/* ]] || return 0
	done
	return 1
}

# What the program would have had beside the launcher, but for what tells about this very container.
take_environment() {
	local entry home
	home=$(unset HOME && echo ~)
	image_env=() env=()
	for entry in "${call[@]}"; do
		case ${entry%%=*} in
		APPTAINER* | SINGULARITY* | PWD | OLDPWD | SHLVL | _) continue ;;
		HOME) [[ $entry != "HOME=$home" ]] || continue ;;
		PATH) entry=${entry/"${here%/*}/covers:"/} entry=${entry%:/run/batchgate/bin} ;;
		OMP_NUM_THREADS) [[ $entry != "$given_threads" || ! $threads ]] || entry=OMP_NUM_THREADS=${cores:-$threads} ;;
		esac
		[[ $entry != *=* ]] || env+=("$entry")
	done
	env+=("${everywhere[@]}" "${settings[@]}")
}

# Asks what the container has started, then the container.
ask() {
	if [[ $1 != "$mpi" || -e $scratch/pulls ]]; then
		kill -s TERM "${pids[$1]}" 2>/dev/null
	else
		(ask_all "${pids[$1]}" >/dev/null 2>&1 7>&- 9>&- &)
	fi
}

ask_all() { # PID of the container
	local note number living=1
	trap '' TERM INT HUP USR1 USR2
	while [[ $living ]]; do
		living=''
		for note in "$scratch"/launch.*.pid; do
			{ read -r number <"$note"; } 2>/dev/null || continue
			living=1 note=${note%.pid}
			[[ -e $note.asked ]] || ask_launch "$number" "$dir/launches/${note##*.}"
			: >"$note.asked"
		done
		[[ ! $living ]] || pause 0.2
	done
	kill -s TERM "$1"
}

# The container has ended, and all that it has started ends with it.
judge() {
	local note number server='' numbers=()
	[[ $1 == "$mpi" ]] || return 0
	for note in "$scratch"/launch.*.pid; do
		{ read -r number <"$note"; } 2>/dev/null && kill -TERM "$number" 2>/dev/null && numbers+=("$number")
	done
	[[ ! ${numbers[*]} ]] || pause 2 # for what they have on other nodes
	{ read -r number <"$scratch/model.pid"; } 2>/dev/null && numbers+=("$number")
	{ read -r server <"$scratch/launches.server"; } 2>/dev/null
	[[ ! $server ]] || { kill -KILL -- "-$server" && echo "gone $server" >/proc/$$/fd/7; } 2>/dev/null
	for number in "${numbers[@]}"; do end_session "$number"; done
	rm -rf "$scratch"/launches* "$scratch"/launch.* "$scratch"/model* "$dir/launches" "$dir/$name.tmp"
}

write_cover() { # FILE, DIRECTORY of the pipes as it will see it
	{
		printf '#!/bin/sh\n'
		declare -f cover
		echo "cover '${2//\'/$quote}' \"\$@\""
	} >"$1" && chmod 755 "$1" || exit 1
}

# Without a container.
put_before_path() {
	local called
	rm -rf "$scratch/covers"
	mkdir "$scratch/covers"
	for called in mpirun mpiexec mpiexec.hydra orterun prterun "${covers[@]}"; do write_cover "$scratch/covers/${called##*/}" "$rooms"; done
	env=("PATH=$scratch/covers:$PATH" "${env[@]}")
}

# Over each launcher that the image or a volume has. Names that neither has come last in PATH: the text may install its own.
cover_launchers() {
	local called file found=' ' done_with=$'\n'
	while read -r called file; do
		[[ $file == /* && $file != *[[:cntrl:]]* ]] || continue
		found+="$called "
		[[ $done_with != *$'\n'"$file"$'\n'* ]] || continue
		done_with+=$file$'\n'
		mount "$scratch/cover" "$file" ro
	done < <(read_until_end <"$scratch/model/launchers")
	mkdir -m 755 "$rooms/bin" || exit 1
	for called in "${covers[@]}"; do
		[[ $called == */* || $found == *" $called "* ]] || cp -p "$scratch/cover" "$rooms/bin/$called" || exit 1
	done
	put_behind_path /run/batchgate/bin
}

put_behind_path() {
	local entry path=''
	for entry in "${image_env[@]}" "${env[@]}"; do [[ $entry != PATH=* ]] || path=${entry#PATH=}; done
	if [[ $path ]]; then
		env+=("PATH=$path:$1")
	else
		env+=("APPEND_PATH=$1") # the runtime's own word: the image's PATH is not known here
	fi
}

# A container as those of ranks are, without what the command has written to its own. It names the launchers that it has, and
# tells for each launch what ranks will find: to start one each time would take as long as a launch by hand.
start_model() { (run_model >"$scratch/model/launchers" 2>/dev/null 6>&- 7>&- 8>&- 9>&- &) }

run_model() {
	local launcher_words=() launcher_env=() given=("${env[@]}")
	launch # for its variables
	local env=("${launcher_env[@]}" "${given[@]}") workdir='' command=1
	local argv=(/bin/sh -c "$(declare -f model list_launchers); model \"\$@\"" model "${targets[@]}" "${covers[@]}")
	mount "$scratch/model" /run/batchgate ro
	container_words
	echo "$BASHPID" >"$scratch/model.pid"
	exec setsid "${words[@]}" </dev/null
}

# Runs in the image, with the paths of volumes.
model() {
	list_launchers "$@"
	echo end
	exec 3<>/run/batchgate/requests >/dev/null
	while read -r number <&3; do
		/bin/sh <"/run/batchgate/$number.question" >"/run/batchgate/$number.answer" 2>/dev/null 3<&- &
	done
}

# What functions of a POSIX shell print there, of the program of ranks and its words, in their directory.
ask_model() { # FUNCTIONS NAME
	local number=${here##*.} asking answering
	local at=${here%/*}/model/$number
	rm -f "$at".*
	mkfifo -m 600 "$at.question" "$at.answer" || return
	exec {asking}<>"$at.question" {answering}<>"$at.answer"
	question "$@" >&"$asking" &
	echo "$number" 1<>"${here%/*}/model/requests"
	read_until_end <&"$answering"
	kill -KILL "$!" 2>/dev/null # nobody has read it
	rm -f "$at".*
	exec {asking}<&- {answering}<&-
}

question() {
	local entry value quote="'\\''"
	printf '%s\n' "$1"
	for entry in "${env[@]}"; do
		value=${entry#*=}
		case ${entry%%=*} in
		*[!A-Za-z0-9_]*) ;;
		PATH | LD_* | PYTHON*) printf "export %s='%s'\n" "${entry%%=*}" "${value//\'/$quote}" ;;
		esac
	done
	printf "cd -- '%s' || echo lost\nset --" "${workdir//\'/$quote}"
	printf " '%s'" "${argv[@]//\'/$quote}"
	printf '\n%s "$@" </dev/null\necho end\nexit\n' "$2"
}

read_until_end() {
	local line
	while IFS= read -r -t 60 line && [[ $line != end ]]; do printf '%s\n' "$line"; done
}

# Runs in the image. Its arguments are the paths of volumes. What links lead to is the same file, under its own name.
list_launchers() {
	rest=$PATH: places='' volumes=''
	while [ "$rest" ]; do places="$places ${rest%%:*}" rest=${rest#*:}; done
	for volume; do
		if [ -d "$volume" ]; then
			volumes="$volumes $volume/bin $volume/*/bin"
		elif [ "${volume%/*}" != "$volume" ]; then
			places="$places ${volume%/*}"
		fi
	done
	for place in $places /bin /usr/bin /usr/local/bin /usr/lib*/*/bin /usr/lib*/*/*/bin /usr/local/*/bin /usr/local/*/*/bin \
		/usr/mpi/*/*/bin /opt/*/bin /opt/*/*/bin /opt/*/*/*/bin /opt/*/*/*/*/bin $volumes; do
		for file in "$place"/mpirun "$place"/mpirun.* "$place"/mpiexec "$place"/mpiexec.* "$place"/orterun "$place"/prterun \
			"$place"/srun; do
			[ -f "$file" ] && [ -x "$file" ] || continue
			real=$(readlink -f "$file" 2>/dev/null) || real=$file
			echo "${file##*/} $real"
		done
	done
}

# Runs in the container, which may have a POSIX shell only, in place of a launcher.
cover() {
	said=${0##*/} at=$1/$$ asked=''
	PATH=${PATH:+$PATH:}/usr/local/bin:/usr/bin:/bin
	if ! command -v cat >/dev/null; then
		echo "batchgate: $said cannot start ranks: the image has no cat, which hands on words and output" >&2
		exit 127
	fi
	echo "$$" >"$1/requests"
	shift
	trap 'asked=TERM && { echo TERM >&8; } 2>/dev/null' TERM
	trap 'asked=INT && { echo INT >&8; } 2>/dev/null' INT
	trap 'asked=HUP && { echo HUP >&8; } 2>/dev/null' HUP
	trap '' USR1 USR2
	until [ -p "$at/ready" ]; do sleep 0.02 2>/dev/null || sleep 1; done
	if [ -e /proc/self/fd/0 ]; then exec 9<&0; else exec 9</dev/null; fi
	# What timeout sends goes to a whole group: the words on their way are not lost by it.
	(trap '' TERM INT HUP && exec cat <&9 >"$at/in") &
	input=$!
	exec 9<&-
	(trap '' TERM INT HUP && exec cat <"$at/out") &
	output=$!
	(trap '' TERM INT HUP && exec cat <"$at/err" >&2) &
	errors=$!
	(trap '' TERM INT HUP && read -r code <"$at/code" && exit "$code" || exit 137) &
	ended=$!
	{
		printf '%s\0' "$#" "$said" "$@" "$(pwd -P)" \
			"umask $(umask) c $(ulimit -S -c) n $(ulimit -S -n) s $(ulimit -S -s) l $(ulimit -S -l)"
		cat "/proc/$$/environ"
	} >"$at/call"
	exec 8>"$at/ask" # its end tells outside that this has ended
	[ -z "$asked" ] || echo "$asked" >&8
	for process in "$output" "$errors" "$ended"; do
		while wait "$process"; code=$?; kill -0 "$process" 2>/dev/null; do :; done
	done
	kill -KILL "$input" 2>/dev/null
	exit "$code"
}

# Reads "given", a launcher's name and words, as router.workload.launcherline does: figures, placement, "settings", argv.
take_words() {
	local table word shown option meaning value values inline at=1
	table=("${mpirun_options[@]}")
	[[ $said != srun* ]] || table=("${srun_options[@]}")
	while ((at < ${#given[@]})); do
		word=${given[at]}
		[[ $word == -?* ]] || break
		((++at))
		[[ $word != -- ]] || break
		take_option
	done
	argv=("${given[@]:at}")
	((${#argv[@]})) || misread 'is followed by no program'
}

misread() { cannot_start 2 "$said $1"; }

take_option() {
	local count
	values=() inline='' shown=${word%%=*}
	known "$shown" && [[ $word == *=* ]] && inline=1 values=("${word#*=}")
	if [[ ! $inline && $said == srun* && $word == -[!-]?* ]] && known "${word:1:1}"; then
		[[ $option != *' 0' ]] || ! takes_value "${word:1}" || misread "has $word, several options in one; write them apart"
		shown=${word:0:2} value=${word:2} inline=1
		values=("${value#=}")
	elif [[ ! $inline ]]; then
		shown=$word
	fi
	if ! known "$shown"; then
		unknown_option
		return
	fi
	meaning=${option% *} count=${option#* }
	[[ $meaning != several_programs ]] || means_several_programs
	if [[ $inline ]]; then
		[[ $count != 0 || $meaning == dropped ]] || misread "has $word, and $shown takes no value"
	else
		[[ $meaning != set || ${given[at]} != *=* ]] || count=1
		values=("${given[@]:at:count}")
		((at += count))
	fi
	[[ $meaning != set || ${values[0]} != *=* ]] || count=1
	((${#values[@]} >= count)) || misread "has $shown without its value"
	value=${values[0]}
	"means_$meaning"
}

# $option: "meaning count" of a name with any number of dashes before it; fails where the table has none.
known() {
	local row name=$1
	while [[ $name == -* ]]; do name=${name#-}; done
	option=''
	[[ $name && $name != *[[:space:]]* ]] || return
	for row in "${table[@]}"; do
		[[ $row == *" $name "* ]] || continue
		option=${row%%:*}
		return
	done
	return 1
}

# Whether any letter of several is an option with a value, or none at all.
takes_value() {
	local i keep=$option found=1
	for ((i = 0; i < ${#1}; i++)); do
		if ! known "${1:i:1}" || [[ $option != *' 0' ]]; then found=0; fi
	done
	option=$keep
	return "$found"
}

# It is left out where the next word is surely not its value.
unknown_option() {
	local rest=$((${#given[@]} - at))
	[[ $word == *=* || $rest == 1 || (${given[at]} == -* && $rest -gt 0) ]] ||
		misread "has the unknown option $word, after which it cannot be told where the program starts; write it before another option, or leave it out"
}

count_of() { # VARIABLE COUNT, which is a part of the value
	local part=which
	if [[ ! $2 || $2 == *[!0-9]* ]] || ((${#2} > ${#largest_count} || 10#$2 < 1 || 10#$2 > largest_count)); then
		[[ $2 == "$value" ]] || part="where ${2:0:40}"
		misread "has $shown ${value:0:40}, $part is not a whole number from 1 to $largest_count"
	fi
	printf -v "$1" %d $((10#$2))
}

means_ranks() { count_of ranks "$value"; }
means_ranks_per_node() { count_of per_node "$value"; }
means_one_per_node() { per_node=1; }
means_nodes() { count_of nodes "${value%%-*}"; }
means_cores_per_rank() { count_of cores "$value"; }
means_mapping() {
	mapping=$value
	[[ ${shown##*-} != ppr ]] || mapping=ppr:$value
	[[ ! $mapping =~ ^[Pp][Pp][Rr]:([0-9]+):[Nn][Oo][Dd][Ee](:.*)?$ ]] || count_of per_node "${BASH_REMATCH[1]}"
	[[ ! ${mapping,,} =~ (^|[:,])oversubscribe([:,]|$) ]] || crowded=1
	[[ ! $mapping =~ (^|[:,])[Pp][Ee]=([0-9]+)([:,]|$) ]] || count_of cores "${BASH_REMATCH[2]}"
}
means_mapping_word() { mapping=${shown#"${shown%%[!-]*}"} mapping=${mapping#by}; }
means_binding() { binding=$value; }
means_binding_word() { binding=${shown#"${shown%%[!-]*}"} binding=${binding#bind-to-}; }
means_export() { [[ $value && $value != *=* ]] || set_variable "$value"; } # one without a value is there already
means_export_list() { :; }
means_set() {
	[[ $value == *=* ]] || value+="=${values[1]}"
	set_variable "$value"
	[[ ${shown##*-} != genv ]] || everywhere+=("$value")
}
means_srun_export() {
	local items item
	IFS=, read -r -d '' -a items <<<"$value,"
	for item in "${items[@]}"; do [[ $item != *=* ]] || set_variable "$item"; done
}
means_working_dir() { workdir=$value; }
means_crowded() { crowded=1; }
means_dropped() { [[ $shown != *oversubscribe || $shown == *nooversubscribe ]] || crowded=1; }
means_several_programs() { misread "has $shown, which is not one program on many ranks"; }

set_variable() {
	[[ $1 && $1 != =* ]] || misread 'sets a variable without a name'
	settings+=("$1")
}

largest_count=1000000
mpirun_options=( # meaning, number of values, names
	'binding 1: bind-to '
	'binding_word 0: bind-to-core bind-to-none bind-to-socket '
	'cores_per_rank 1: cpus-per-proc cpus-per-rank '
	'dropped 0: allow-run-as-root continuous d debug debug-daemons debug-daemons-file debug-devel disable-auto-cleanup disable-recovery disable-x display-allocation display-devel-allocation display-devel-map display-diffable-map display-map display-topo do-not-launch do-not-resolve enable-instant-on-support enable-recovery enable-x envall envnone fwd-mpirun-port genvall genvnone get-stack-traces ilp64 index-argv-by-rank info l leave-session-attached localonly merge-stderr-to-stdout nocompress nolocal nooversubscribe noprefix novm output-proctable oversubscribe preload-binary prepend-rank print-all-exitcodes q quiet report-bindings report-child-jobs-separately report-state-on-timeout set-cwd-to-session-dir show-progress silent-abort stream-buffering tag-output timestamp-output tv use-hwthread-cpus use-regexp v verbose xml '
	'dropped 1: H am binding bootstrap bootstrap-exec cartofile cf cpu-list cpu-set debugger default-hostfile demux display dvm-uri errfile errfile-pattern f gtool gtoolfile host hostfile hosts iface launch-agent launcher launcher-exec machine machinefile max-restarts max-vm-size membind nameserver npersocket ompi-server order-nodes outfile outfile-pattern output output-filename path personality pmi-connect pmi-port port-range prefix preload-files prtemca-file rank-by rankfile report-events report-pid report-uri rf rmk runtime-options stdin timeout tmpdir topolib tune usize xml-file xterm '
	'dropped 2: gmca gomca gpmixmca gprtemca mca omca pmixmca prtemca '
	'export 1: x '
	'export_list 1: envlist genvlist '
	'mapping 1: map-by ppr '
	'mapping_word 0: bycore bynode byslot '
	'one_per_node 0: pernode '
	'ranks 1: c n np '
	'ranks_per_node 1: N grr npernode perhost ppn '
	'set 2: env genv '
	'several_programs 1: app configfile '
	'working_dir 1: wd wdir '
)
srun_options=( # meaning, number of values, names
	'binding 1: cpu-bind '
	'cores_per_rank 1: c cpus-per-task '
	'dropped 0: E H I K O Q X Z compress contiguous disable-status exact exclusive hold immediate k kill-on-bad-exit l label nice no-allocate no-kill overcommit overlap oversubscribe preserve-env propagate quiet quit-on-interrupt reboot resv-ports s send-libs spread-job u unbuffered use-min-nodes v verbose vv vvv '
	'dropped 1: A B C G J L M S T W account acctg-freq b bb bbf bcast bcast-exclude begin cluster-constraint clusters comment constraint container core-spec cores-per-socket cpu-freq cpus-per-gpu d deadline delay-boot dependency e epilog error exclude extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags het-group hint i input job-name jobid licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus mpi network nodelist ntasks-per-core ntasks-per-gpu ntasks-per-socket o open-mode output p partition power priority profile prolog q qos r relative reservation signal slurmd-debug sockets-per-node switches t task-epilog task-prolog thread-spec threads threads-per-core time time-min tmp uid w wait wckey x '
	'mapping 1: distribution m '
	'nodes 1: N nodes '
	'ranks 1: n ntasks '
	'ranks_per_node 1: ntasks-per-node tasks-per-node '
	'several_programs 0: multi-prog pty '
	'srun_export 1: export '
	'working_dir 1: D chdir '
)

main "$@"
