"""Policies that tests in several rooms have in common."""

from typing import Final

LARGE_GO_TO_HPC: Final = """
sites:
  - name: demo
    system: openpbs
    host: ssh://login
    access: own-keys
    keys: /etc/batchgate/keys
    knownHosts: /etc/batchgate/known_hosts
    workDir: /scratch/{user}
    queues:
      - {name: batch, nodes: 4, cpusPerNode: 8, memoryPerNode: 64Gi, walltimeDefault: 1h, walltimeMax: 24h}
accounts:
  - {users: [admin, ada], as: ada, account: physics}
rules:
  - {name: large, when: job.cpus >= 2, hpc: [{queue: batch}]}
  - {name: small, cloud: true}
"""
"""Jobs of two cores and more go to the one queue; nothing reaches the site, so none of them runs."""
