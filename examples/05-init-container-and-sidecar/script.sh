#!/bin/bash
#PBS -q batch
#PBS -l select=1:ncpus=3:mpiprocs=1:ompthreads=3:mem=320mb
#PBS -l walltime=00:30:00
#PBS -A physics
# shellcheck disable=SC2016,SC2034,SC2086,SC2317,SC2329
# The directory of the Pod comes in BATCHGATE_DIR (qsub -v).

# --- this Job: default/pipeline ---
kinds=(init sidecar main)
names=(prepare watch work)
deadline=1710 # seconds for the containers
grace=30 # seconds between TERM and KILL
restart_policy=Never
log_limit=10737418240 # bytes of one log
runtime=apptainer
env_prefix=APPTAINERENV_
from_log=() # the end of whose log is their message where they fail
modules=()

container_0() { # init
	command=1
	argv=(sh -c 'echo prepared')
	env=(OMP_NUM_THREADS=1)
	image=/var/tmp/batchgate-demo/images/busybox
	options=(--cleanenv --no-home --no-eval --pid --writable-tmpfs)
	own_tmp
	message /dev/termination-log
}

container_1() { # sidecar
	command=1
	argv=(sh -c 'trap "echo bye; exit 0" TERM; echo watching; while :; do sleep 0.1; done')
	env=(OMP_NUM_THREADS=1)
	image=/var/tmp/batchgate-demo/images/busybox
	options=(--cleanenv --no-home --no-eval --pid --writable-tmpfs)
	own_tmp
	message /dev/termination-log
}

container_2() { # main
	command=1
	argv=(sh -c 'sleep 1; echo worked')
	env=(OMP_NUM_THREADS=2)
	image=/var/tmp/batchgate-demo/images/busybox
	options=(--cleanenv --no-home --no-eval --pid --writable-tmpfs)
	own_tmp
	message /dev/termination-log
}

# runtime 1: base restarts sidecars apptainer plain
