#!/bin/bash
#PBS -q gpu
#PBS -l select=1:ncpus=2:mpiprocs=1:ompthreads=2:mem=1gb:ngpus=1
#PBS -l walltime=00:30:00
#PBS -A physics
# shellcheck disable=SC2016,SC2034,SC2086,SC2317,SC2329
# The directory of the Pod comes in BATCHGATE_DIR (qsub -v).

# --- this Job: default/gpu ---
kinds=(main)
names=(train)
deadline=1710 # seconds for the containers
grace=30 # seconds between TERM and KILL
restart_policy=Never
log_limit=10737418240 # bytes of one log
runtime=apptainer
env_prefix=APPTAINERENV_
from_log=() # the end of whose log is their message where they fail
modules=()
device_variable=CUDA_VISIBLE_DEVICES
device_files='/dev/nvidia[0-9]*'
devices_per_node=1

container_0() { # main
	command=1
	argv=(sh -c 'echo "this Job may use GPU $CUDA_VISIBLE_DEVICES"')
	env=(OMP_NUM_THREADS=2)
	gpus=1 first_gpu=0
	image=/var/tmp/batchgate-demo/images/busybox
	options=(--cleanenv --no-home --no-eval --pid --writable-tmpfs --nv)
	own_tmp
	message /dev/termination-log
}

# runtime 1: base apptainer devices plain
