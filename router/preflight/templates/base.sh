# What is noted is renamed into place when it is whole: one "key value" a line.
LC_ALL=C
export LC_ALL
umask 077
dir=${1:-${BATCHGATE_DIR:-}}
cd "$dir" || exit 3

note() {
	local value="${*:2}"
	printf '%s %s\n' "$1" "${value//[[:cntrl:]]/ }" >>.report || exit 4
}

refuse() { note modules "$2"; }

finish() {
	note end
	mv -T .report report
}

note begin
note host "$(uname -n)"
note machine "$(uname -m)"
note user "$(id -un 2>/dev/null || id -u)"
note name "${SLURM_JOB_NAME:-${PBS_JOBNAME:-}}"
note account "${SLURM_JOB_ACCOUNT:-}"
