#!/bin/bash
#PBS -q workq
#PBS -l select=1:ncpus=1:mpiprocs=1:ompthreads=1
#PBS -l walltime=01:00:00
# shellcheck disable=SC2016,SC2034,SC2086,SC2317,SC2329
# The directory of the Pod comes in BATCHGATE_DIR (qsub -v).

# --- this Job: physics/simulate ---
kinds=(main)
names=(main)
deadline=3510 # seconds for the containers
grace=30 # seconds between TERM and KILL
restart_policy=Never
log_limit=10737418240 # bytes of one log
from_log=() # the end of whose log is their message where they fail
modules=()

container_0() { # main
	command=1
	argv=(/bin/echo hello)
	env=(OMP_NUM_THREADS=1)
}

lifecycle_0() { # what a kubelet does around it
	probe liveness 0 10 1 1 3 '' exec true
}

# runtime 1: base host plain wrapping enteringhost lifecycle
