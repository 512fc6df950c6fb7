#!/bin/bash
#SBATCH --partition=workq
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=2
#SBATCH --mem=3072M
#SBATCH --time=01:00:00
#SBATCH --signal=B:USR1@90
#SBATCH --account=physics
#SBATCH --wckey=simulation
# shellcheck disable=SC2016,SC2034,SC2086,SC2317,SC2329
# $1: the Pod's directory. --export=NONE must not reach srun.
export SLURM_EXPORT_ENV=ALL SRUN_CPUS_PER_TASK=2

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

container_0() { # main
	command=1
	argv=(sh -c 'echo "$GREETING"')
	workdir='/data dir'
	env=(OMP_NUM_THREADS=2 'GREETING=it'\''s $5')
	image=/sif/image.sif
	options=(--cleanenv --no-home --no-eval --pid --writable-tmpfs)
	own_tmp
	message /dev/termination-log
}

# runtime 1: base usage apptainer plain
