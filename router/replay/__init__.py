"""Judges Jobs that really were by another policy, and tells what it would change.

Pure. A Job comes from the webhook's decision log, from manifests or from a cluster; each becomes a ``Case``. The
commands read the files and the cluster, and print the reports.
"""
