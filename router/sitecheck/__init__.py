"""``batchgate site check``: queries a site, submits probe jobs as its users, reports what must be repaired."""
