"""The HPC users of a site, each attended to separately."""
