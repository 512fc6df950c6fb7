# Redefines what a beat adds. The lists of some batch systems lack what a job uses.
# At a job's start each beat, then every fourth: it is one more file to write.
beats=0 measured=''
beat() {
	((++beats > 4 && beats % 4)) || {
		measured=$(measure /sys/fs/cgroup "/proc/$BASHPID/cgroup") && [[ $measured ]] && echo "$measured" >"$dir/usage"
	} 2>/dev/null
}

# What the job's own cgroup counts: the time, nanoseconds of cores, bytes in use without what can be dropped. "-": unknown.
measure() { # DIRECTORY of cgroups, FILE with those of a process
	local time kinds path cpu=- memory=- idle=inactive_file place='' word value
	while IFS=: read -r _ kinds path; do
		[[ $path == */"job_$job_id/"* ]] || continue
		path=${path%%"/job_$job_id/"*}/job_$job_id
		case ,$kinds, in
		,,) place=$1$path memory=$(<"$1$path/memory.current") ;;
		*,memory,*) place=$1/memory$path idle=total_inactive_file memory=$(<"$1/memory$path/memory.usage_in_bytes") ;;
		*,cpuacct,*) cpu=$(<"$1/cpuacct$path/cpuacct.usage") ;;
		esac
	done <"$2"
	[[ $place ]] || return
	[[ ! -f $place/cpu.stat ]] || while read -r word value; do
		[[ $word != usage_usec ]] || cpu=${value}000
	done <"$place/cpu.stat"
	[[ $cpu != - ]] || sum_processes "$place"
	[[ ! -f $place/memory.stat ]] || while read -r word value; do
		[[ $word != "$idle" ]] || memory=$((memory - value))
	done <"$place/memory.stat"
	printf -v time '%(%s)T' -1
	echo "$time ${cpu:--} ${memory:--}"
}

# Adds up the times of the processes there and of their ended children, in hundredths of a second (proc(5), USER_HZ).
sum_processes() {
	local file pid line ticks=0
	for file in "$1"/{,*/,*/*/}cgroup.procs; do
		while read -r pid; do
			read -r line <"/proc/$pid/stat" || continue
			set -- ${line##*) }
			((ticks += ${12} + ${13} + ${14} + ${15}))
		done <"$file"
	done
	cpu=${ticks}0000000
}
