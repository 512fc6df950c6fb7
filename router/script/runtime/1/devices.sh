
# $devices: what the batch system granted on this node, as a list; $visible: how many that are.
find_devices() {
	local line node list files
	read -r HOSTNAME </proc/sys/kernel/hostname # the variable may have come from another node
	devices=${!device_variable}
	[[ $devices != NoDevFiles ]] || devices=
	# TORQUE: host-gpuN, a line each, in a file that only the first node has
	[[ ${granted[*]} || ! -r ${PBS_GPUFILE:-} ]] || while read -r line; do granted+=("$line"); done <"$PBS_GPUFILE"
	if [[ ! $devices ]]; then
		for line in "${granted[@]}"; do
			node=${line%-gpu*}
			[[ ${node%%.*} != "${HOSTNAME%%.*}" ]] || devices+=${devices:+,}${line##*-gpu}
		done
	fi
	IFS=, read -r -a list <<<"$devices"
	visible=${#list[@]}
	if [[ ! $devices ]]; then
		# shellcheck disable=SC2206
		files=($device_files)
		visible=0
		[[ ! -e ${files[0]} ]] || visible=${#files[@]}
		# A number that was granted is no device yet; beyond it the devices are other jobs'.
		((visible <= ${SLURM_GPUS_ON_NODE:-visible})) || visible=$SLURM_GPUS_ON_NODE
	fi
}

too_few() { echo "this Pod asks for $devices_per_node GPUs on each node, and $visible are visible on $HOSTNAME"; }

check_devices() {
	find_devices
	((visible >= devices_per_node)) || refuse 1 "$(too_few)"
}

# The loaded container's share of the list.
give_devices() {
	local list IFS=,
	[[ $devices ]] || return
	read -r -a list <<<"$devices"
	list=("${list[@]:first_gpu:gpus}")
	env+=("$device_variable=${list[*]}")
}
