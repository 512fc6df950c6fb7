"""What every field of a Job means on HPC: one row for each field of Kubernetes' API below ``JobSpec``.

Pure data. ``docs/fields.md`` is made from these rows, ``batchgate explain`` reads them, and a field without a row keeps a
Job in the cloud. A row is written from what the code does; the tests hold it to that.
"""
