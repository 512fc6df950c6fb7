"""The kubelet's HTTPS API for the virtual nodes, as the API server and collectors of metrics call it.

``runs``, ``query``, ``tail``, ``index``, ``printing``, ``access``, ``routes``, ``figures`` and ``csr`` are pure;
``server`` and the rest are the shell. The agent's Pods come through ``source``; ``serve`` combines all modules.
"""
