
largest_count=1000000
mpirun_options=( # meaning, number of values, names
	'binding 1: bind-to '
	'binding_word 0: bind-to-core bind-to-none bind-to-socket '
	'cores_per_rank 1: cpus-per-proc cpus-per-rank '
	'dropped 0: allow-run-as-root continuous d debug debug-daemons debug-daemons-file debug-devel disable-auto-cleanup disable-recovery disable-x display-allocation display-devel-allocation display-devel-map display-diffable-map display-map display-topo do-not-launch do-not-resolve enable-instant-on-support enable-recovery enable-x envall envnone fwd-mpirun-port genvall genvnone get-stack-traces ilp64 index-argv-by-rank info l leave-session-attached localonly merge-stderr-to-stdout nocompress nolocal nooversubscribe noprefix novm output-proctable oversubscribe preload-binary prepend-rank print-all-exitcodes q quiet report-bindings report-child-jobs-separately report-state-on-timeout set-cwd-to-session-dir show-progress silent-abort stream-buffering tag-output timestamp-output tv use-hwthread-cpus use-regexp v verbose xml '
	'dropped 1: H am binding bootstrap bootstrap-exec cartofile cf cpu-list cpu-set debugger default-hostfile demux display dvm-uri errfile errfile-pattern f gtool gtoolfile host hostfile hosts iface launch-agent launcher launcher-exec machine machinefile max-restarts max-vm-size membind nameserver npersocket ompi-server order-nodes outfile outfile-pattern output output-filename path personality pmi-connect pmi-port port-range prefix preload-files prtemca-file rank-by rankfile report-events report-pid report-uri rf rmk runtime-options stdin timeout tmpdir topolib tune usize xml-file xterm '
	'dropped 2: gmca gomca gpmixmca gprtemca mca omca pmixmca prtemca '
	'export 1: x '
	'export_list 1: envlist genvlist '
	'mapping 1: map-by ppr '
	'mapping_word 0: bycore bynode byslot '
	'one_per_node 0: pernode '
	'ranks 1: c n np '
	'ranks_per_node 1: N grr npernode perhost ppn '
	'set 2: env genv '
	'several_programs 1: app configfile '
	'working_dir 1: wd wdir '
)
srun_options=( # meaning, number of values, names
	'binding 1: cpu-bind '
	'cores_per_rank 1: c cpus-per-task '
	'dropped 0: E H I K O Q X Z compress contiguous disable-status exact exclusive hold immediate k kill-on-bad-exit l label nice no-allocate no-kill overcommit overlap oversubscribe preserve-env propagate quiet quit-on-interrupt reboot resv-ports s send-libs spread-job u unbuffered use-min-nodes v verbose vv vvv '
	'dropped 1: A B C G J L M S T W account acctg-freq b bb bbf bcast bcast-exclude begin cluster-constraint clusters comment constraint container core-spec cores-per-socket cpu-freq cpus-per-gpu d deadline delay-boot dependency e epilog error exclude extra-node-info gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags het-group hint i input job-name jobid licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus mpi network nodelist ntasks-per-core ntasks-per-gpu ntasks-per-socket o open-mode output p partition power priority profile prolog q qos r relative reservation signal slurmd-debug sockets-per-node switches t task-epilog task-prolog thread-spec threads threads-per-core time time-min tmp uid w wait wckey x '
	'mapping 1: distribution m '
	'nodes 1: N nodes '
	'ranks 1: n ntasks '
	'ranks_per_node 1: ntasks-per-node tasks-per-node '
	'several_programs 0: multi-prog pty '
	'srun_export 1: export '
	'working_dir 1: D chdir '
)
