
# Some launchers hand their variables on to all nodes, where other devices are ours: ranks find this node's in their file.
hand_on_devices() {
	local line list node lines=()
	IFS=, read -r -a list <<<"$devices"
	for line in "${list[@]}"; do lines+=("$HOSTNAME-gpu$line"); done
	for line in "${granted[@]}"; do
		node=${line%-gpu*}
		[[ ${node%%.*} == "${HOSTNAME%%.*}" ]] || lines+=("$line")
	done
	granted=("${lines[@]}")
	unset "$device_variable"
}

rank_devices() {
	local hint='; where the launcher binds GPUs to ranks, the MPI profile of the site says so with gpus: rank'
	local each="each rank is to have $devices_per_rank of the $devices_per_node GPUs of its node"
	find_devices
	if ((devices_per_rank && visible == devices_per_rank)); then
		gpus=$devices_per_rank # by the launcher, or there is but one share
	elif ((devices_per_rank && visible < devices_per_node)); then
		say "$each, and $visible are visible on $HOSTNAME"
		exit 1
	elif ((visible < devices_per_node)); then
		say "$(too_few)$hint"
		exit 1
	elif ((devices_per_rank)); then
		take_share
	fi
	give_devices
}

# The share of the list that the rank's place on its node makes.
take_share() {
	local i share rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${PMI_LOCAL_RANK:-}}}
	[[ $launcher != srun ]] || rank=$SLURM_LOCALID # of other launchers' ranks it says 0
	if [[ ! $rank ]]; then
		say "$each, and the launcher does not number the ranks on $HOSTNAME"
		exit 1
	fi
	share=$((rank / ranks_per_share))
	if ((share >= devices_per_node / devices_per_rank)); then
		say "$each, and this is number $((rank + 1)) of the ranks on $HOSTNAME; the mapping of ranks to nodes must be the batch system's"
		exit 1
	fi
	# Without a list the devices are numbered, and others' are hidden.
	[[ $devices ]] || for ((i = 0; i < devices_per_node; i++)); do devices+=${devices:+,}$i; done
	gpus=$devices_per_rank first_gpu=$((first_gpu + share * devices_per_rank))
}
