
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
	# Launches of Open MPI 4 share a directory: one that begins would fail on what another, as it ends, has just removed.
	[[ $launcher != mpirun ]] || several_nodes || export TMPDIR=$here
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
