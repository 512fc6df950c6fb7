"""How a machine outside the cluster joins it as the agent of a site: the account there, the file between, the files here.

``accounts``, ``joinfile``, ``layout``, ``units``, ``sudoers`` and ``helpers`` are pure; ``machine`` is the shell.
"""
