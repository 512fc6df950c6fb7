"""The web page of a cluster's sites and Jobs: ``batchgate page``.

Shell. ``models`` computes what is shown; the other modules read the cluster, guard the door and serve.
"""
