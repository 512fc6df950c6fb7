"""What the page shows, computed from objects of the cluster.

Pure. Texts of users stay as they are: templates escape them.
"""
