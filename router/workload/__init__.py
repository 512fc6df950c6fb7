"""From a Job's manifest to what it asks for.

Pure. Knows the fields of Jobs and Pods; not the policy, the sites, nor where a Job will go.
"""

from router.workload.bounds import check_bounds
from router.workload.sizing import job_of, managed_by, workload_of

__all__ = ["check_bounds", "job_of", "managed_by", "workload_of"]
