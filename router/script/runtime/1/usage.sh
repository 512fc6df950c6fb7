# What the job's own cgroup counts, where the lists of the batch system lack it.
beats=0
beat() {
	local found
	## At a job's start each beat, then every fourth: it is one more file to write.
	((++beats > 4 && beats % 4)) || {
		found=$(measure /sys/fs/cgroup "/proc/$BASHPID/cgroup") && echo "$found" >"$dir/usage"
	} 2>/dev/null
}

# The time, nanoseconds of cores, bytes in use without what can be dropped. "-": unknown.
measure() { # DIRECTORY of cgroups, FILE with those of a process
	local kinds path place='' total='' word value cpu=- memory=- ticks=0
	while IFS=: read -r _ kinds path; do
		[[ $path =~ .*/"job_$job_id"/ ]] || continue
		path=${BASH_REMATCH[0]}
		case ,$kinds, in
		,,) place=$1$path ;;
		*,memory,*) place=$1/memory$path total=total_ ;;
		*,cpuacct,*) read -r cpu <"$1/cpuacct${path}cpuacct.usage" ;;
		esac
	done <"$2"
	[[ $place ]] || return
	read -r memory <"${place}memory.current" || read -r memory <"${place}memory.usage_in_bytes"
	while read -r word value; do
		case $word in
		usage_usec) cpu=${value}000 ;;
		"${total}inactive_file") ((memory -= value)) ;;
		esac
	done < <(cat "$place"{cpu,memory}.stat)
	## The processes there and their ended children, in hundredths of a second (proc(5), USER_HZ).
	[[ $cpu != - ]] || {
		while read -r value; do
			read -r word <"/proc/$value/stat" || continue
			set -- ${word##*) }
			((ticks += ${12} + ${13} + ${14} + ${15}))
		done < <(cat "$place"{,*/,*/*/}cgroup.procs)
		cpu=${ticks}0000000
	}
	printf '%(%s)T %s %s\n' -1 "$cpu" "$memory"
}
