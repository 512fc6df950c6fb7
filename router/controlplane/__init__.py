"""A real Kubernetes control plane on this machine, for tests and the demo: etcd, API server, controller-manager,
scheduler.

Shell: builds programs, starts and ends processes. The product itself does not need it.
"""
