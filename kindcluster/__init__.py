"""A kind cluster on this machine, with Batchgate in it: by Docker, or on Debian by podman and a node image made here.

``python -m kindcluster up`` makes it, ``down`` ends it, ``kubectl`` talks to it. See docs/kind.md.
"""
