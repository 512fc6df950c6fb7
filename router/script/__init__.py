"""The batch script of a Job."""
