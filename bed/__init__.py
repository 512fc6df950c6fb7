"""The bed: a small, real HPC site on one Debian machine, for tests and for trying things.

``python -m bed up`` makes it, ``down`` ends it, ``status`` says what runs. See docs/bed.md.
"""
