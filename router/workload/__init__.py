"""From a Job's manifest to what it asks for."""

from router.workload.sizing import job_of, workload_of

__all__ = ["job_of", "workload_of"]
