
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

# Ranks on several nodes find each other by the names of nodes.
several_nodes() {
	[[ ! -r ${PBS_NODEFILE:-} ]] || (($(sort -u "$PBS_NODEFILE" | wc -l) < 2)) || return 0
	((${SLURM_JOB_NUM_NODES:-1} > 1))
}

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
		declare -f rank take_limits take_words_over container_words mount make_place rank_devices take_share find_devices too_few give_devices end_session take_pipe guard say watch pause \
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
	local variable entry pid='' asked='' killed='' code='' worker devices='' passed=()
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
	take_pipe 7 >(exec setsid /bin/bash -c "$(declare -f end_session guard); guard ''")
	take_pipe 8 <(:)
	take_pipe 9 <(:)
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

# The pipes of "open_pipes", without names: a launcher that is killed takes its ranks along, and no file may be left then.
# Older shells would keep the other number open, also in what they start.
take_pipe() { # NUMBER PATH of a process substitution
	case $1 in
	7) exec 7>"$2" ;;
	8) exec 8<>"$2" ;;
	9) exec 9<>"$2" ;;
	esac
	eval "exec ${2##*/}>&-"
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
