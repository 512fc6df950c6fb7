#!/bin/bash
#PBS -q batch
#PBS -l select=4:ncpus=4:mpiprocs=4:ompthreads=1:mem=768mb
#PBS -l place=scatter
#PBS -l walltime=00:11:30
#PBS -A physics
# shellcheck disable=SC2016,SC2034,SC2086,SC2317,SC2329
# The directory of the Pod comes in BATCHGATE_DIR (qsub -v).

# --- this Job: default/ring ---
kinds=(main)
names=(ring)
deadline=600 # seconds for the containers
grace=30 # seconds between TERM and KILL
restart_policy=Never
log_limit=10737418240 # bytes of one log
runtime=apptainer
env_prefix=APPTAINERENV_
from_log=() # the end of whose log is their message where they fail
modules=()
mpi=0 # the container that is started once per rank
profile=open-mpi # of the site, for MPI
ranks=16
launcher=mpirun
launcher_path=''
launcher_signal=USR1
host_line='%s slots=%d'
lines_per_rank=1
granted=() # devices of all nodes that are known, as host-gpuN
launch() {
	launcher_env=(OMPI_MCA_btl_vader_single_copy_mechanism=none UCX_POSIX_USE_PROC_LINK=n 'UCX_TLS=^cma')
	launcher_words=(-np 16 --hostfile "$scratch/hosts" --map-by ppr:4:node --bind-to none)
	launcher_words+=(-x PATH)
	[[ ! $LD_LIBRARY_PATH ]] || launcher_words+=(-x LD_LIBRARY_PATH)
}

container_0() { # main
	command=1
	argv=(ring)
	env=(OMP_NUM_THREADS=1)
	image=docker://registry.example.org/ring:1
	options=(--cleanenv --no-home --no-eval --writable-tmpfs)
	shared_tmp
	message /dev/termination-log
}

# runtime 1: base apptainer images pairs talk mpi
