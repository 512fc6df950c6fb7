#!/bin/bash
#PBS -q workq
#PBS -l select=1:ncpus=4:mpiprocs=4:ompthreads=1:mem=3355444kb+2:ncpus=3:mpiprocs=3:ompthreads=1:mem=2516583kb
#PBS -l place=scatter
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
runtime=/opt/apptainer/bin/apptainer
env_prefix=APPTAINERENV_
from_log=() # the end of whose log is their message where they fail
modules=()
mpi=0 # the container that is started once per rank
profile=mpi # of the site, for MPI
ranks=10
launcher=mpiexec
launcher_path=/opt/mpi/bin/launcher
launcher_signal=
host_line='%s:%d'
lines_per_rank=1
granted=() # devices of all nodes that are known, as host-gpuN
launch() {
	launcher_env=(MPIR_CVAR_CH4_CMA_ENABLE=0 UCX_POSIX_USE_PROC_LINK=n 'UCX_TLS=^cma')
	launcher_words=(-n 10 -f "$scratch/hosts")
}

container_0() { # main
	command=1
	argv=(./solver --steps 10)
	env=(OMP_NUM_THREADS=1)
	own=(MODE=fast)
	image=/sif/image.sif
	options=(--cleanenv --no-home --no-eval --writable-tmpfs)
	shared_tmp
	mkdir -p "$dir"/volumes/scratch
	mount "$dir"/volumes/scratch /scratch
	message /dev/termination-log
}

# runtime 1: base apptainer images pairs talk mpi
