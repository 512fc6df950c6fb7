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
runtime=/opt/apptainer/bin/apptainer
env_prefix=APPTAINERENV_
from_log=() # the end of whose log is their message where they fail
modules=()

container_0() { # main
	command=1
	argv=(serve)
	env=(OMP_NUM_THREADS=1)
	image=/sif/image.sif
	options=(--cleanenv --no-home --no-eval --pid --writable-tmpfs)
	own_tmp
	message /dev/termination-log
	host_aliases $'192.0.2.7\tdb\tdb.lab'
	resolving '' 192.0.2.53 '' ndots:2
}

lifecycle_0() { # what a kubelet does around it
	post_start exec sh -c 'echo it'\''s up'
	pre_stop sleep 5
	probe startup 0 10 1 1 30 '' tcp 127.0.0.1 8080
	probe liveness 0 10 1 1 3 5 http 127.0.0.1 8080 $'GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: kube-probe/batchgate\r\nAccept: */*\r\nX-A: it\'s\r\nConnection: close\r\n\r\n'
	probe readiness 0 10 1 1 3 '' https 127.0.0.1 8443 $'GET / HTTP/1.1\r\nHost: 127.0.0.1:8443\r\nUser-Agent: kube-probe/batchgate\r\nAccept: */*\r\nConnection: close\r\n\r\n'
}

restarts_0() { # when it runs again
	policy=Never
	rule In 42 43
}

# runtime 1: base restarts apptainer hostaliases resolving plain wrapping entering asking lifecycle restarting
