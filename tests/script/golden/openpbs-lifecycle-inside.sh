#!/bin/bash
#PBS -q workq
#PBS -l select=2:ncpus=4:mpiprocs=4:ompthreads=1:mem=4gb
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
mpi=0 # the container whose launchers start ranks of it
covers=(mpirun) # launchers that it starts
targets=() # paths of its volumes
threads=1 # OMP_NUM_THREADS of a rank, where a launch and the Job say none
profile=mpi # of the site, for MPI
launcher=mpirun
launcher_path=/opt/mpi/bin/launcher
launcher_signal=USR1
host_line='%s slots=%d'
lines_per_rank=1
for_mapping='--map-by %s' for_binding='--bind-to %s' for_none='--bind-to none'
for_per_node='--map-by ppr:%s:node' for_nodes='' for_cores=''
for_stdin='' for_stdin_to_all=''
granted=() # devices of all nodes that are known, as host-gpuN
launch() {
	launcher_env=(OMPI_MCA_btl_vader_single_copy_mechanism=none UCX_POSIX_USE_PROC_LINK=n 'UCX_TLS=^cma')
	launcher_words=(-np "${shares[0]:-$ranks}" --hostfile "$scratch/hosts")
	launcher_words+=(-x PATH)
	[[ ! $LD_LIBRARY_PATH ]] || launcher_words+=(-x LD_LIBRARY_PATH)
}

container_0() { # main
	command=1
	argv=(bash -c 'mpirun -np 8 ./solver | tee log')
	env=(OMP_NUM_THREADS=8)
	image=/sif/image.sif
	options=(--cleanenv --no-home --no-eval --writable-tmpfs)
	shared_tmp
	message /dev/termination-log
}

lifecycle_0() { # what a kubelet does around it
	probe liveness 0 10 1 1 3 '' exec true
}

# runtime 1: base apptainer images pairs talk mpi launches covers launchwords launcheroptions wrapping entering lifecycle
