"""The embedded queue: a one-machine batch system for trying Batchgate out and for tests.

It speaks OpenPBS' formats and exit codes, as recorded from a real server, and really runs scripts. It is no product:
sites with more than one machine have PBS or Slurm. Layers, from pure to shell: ``resources``, ``submission``,
``records``, ``placing``, ``display``; then ``state`` (files), ``shepherd`` (one process a job), ``ledger``, ``daemon``
(one process a directory), ``client``, ``commands``.
"""
