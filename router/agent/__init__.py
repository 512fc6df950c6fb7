"""The agent: the Pods of a site's virtual nodes become batch jobs, and what becomes of these becomes their status.

Shell around ``router.reconcile``. State lives in Kubernetes and on the site, never only here: the program may be killed
at any moment and starts again from what it finds.
"""
