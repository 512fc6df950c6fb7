#!/bin/bash
#PBS -q batch
#PBS -l select=1:ncpus=2:mpiprocs=1:ompthreads=2:mem=256mb
#PBS -l walltime=00:30:00
#PBS -A physics
# shellcheck disable=SC2016,SC2034,SC2086,SC2317,SC2329
# The directory of the Pod comes in BATCHGATE_DIR (qsub -v).

# --- this Job: default/fails ---
kinds=(main)
names=(work)
deadline=1710 # seconds for the containers
grace=30 # seconds between TERM and KILL
restart_policy=Never
log_limit=10737418240 # bytes of one log
runtime=apptainer
env_prefix=APPTAINERENV_
from_log=() # the end of whose log is their message where they fail
modules=()

container_0() { # main
	command=1
	argv=(sh -c 'echo "cannot open input.dat"; exit 3')
	env=(OMP_NUM_THREADS=2)
	image=/var/tmp/batchgate-demo/images/busybox
	options=(--cleanenv --no-home --no-eval --pid --writable-tmpfs)
	own_tmp
	message /dev/termination-log
}

# runtime 1: base apptainer plain
