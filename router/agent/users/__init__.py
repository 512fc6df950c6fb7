"""The HPC users of a site, each attended by itself."""
