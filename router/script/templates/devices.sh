
# $devices: what the batch system granted on this node, as a list; $visible: how many that are.
find_devices() {
	local line list files
	devices=${!device_variable}
	[[ $devices != NoDevFiles ]] || devices=
	if [[ ! $devices && -r ${PBS_GPUFILE:-} ]]; then # TORQUE: host-gpuN, a line each
		while read -r line; do
			local host=${line%-gpu*}
			[[ ${host%%.*} != "${HOSTNAME%%.*}" ]] || devices+=${devices:+,}${line##*-gpu}
		done <"$PBS_GPUFILE"
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

rank_devices() {
	find_devices
	if ((visible < devices_per_node)); then
		say "$(too_few)"
		exit 1
	fi
	give_devices
}
