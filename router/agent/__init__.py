"""The agent: turns Pods on a site's virtual nodes into batch jobs, and writes the jobs' state into the Pods' status.

Shell around ``router.reconcile``. All state lives in Kubernetes and on the site: the program may be killed at any
moment, and starts again from the state that it finds there.
"""
