"""From a Job's manifest to what it asks for."""

from router.workload.bounds import check_bounds
from router.workload.sizing import job_of, workload_of

__all__ = ["check_bounds", "job_of", "workload_of"]
