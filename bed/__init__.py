"""The bed: a small, real HPC site on one Debian machine, for tests and experiments.

``python -m bed up`` makes it, ``down`` ends it, ``status`` shows its daemons. See docs/bed.md.
"""
