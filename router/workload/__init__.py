"""Reads from a Job's manifest what the Job asks for.

Pure. Knows the fields of Jobs and Pods, but no policy or sites.
"""

from router.workload.bounds import check_bounds
from router.workload.manifest import job_of, managed_by
from router.workload.sizing import workload_of

__all__ = ["check_bounds", "job_of", "managed_by", "workload_of"]
