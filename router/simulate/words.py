"""What every output says of the model.

Pure.
"""

from __future__ import annotations

from typing import Final

MODEL: Final = "This is a model: it shows how policies compare, and promises no waiting time."

LEAVES_OUT: Final = (
    "jobs of others in the queues, priorities, fair shares, limits of users, reservations and failures",
    "the time to submit, to pull images and to start, and how old figures of queues are when a rule reads them",
    "that Pods fail and are made again, and that users change what they submit when they wait",
    "that a deadline in the cloud ends a Job with all its Pods: there each Pod has it for itself",
    "nodes of the cloud: there it counts cores alone",
)
"""Each the end of a sentence."""

MEMORY: Final = "On a node a job takes the largest of its shares of cores, memory and GPUs."
