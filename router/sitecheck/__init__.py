"""``batchgate site check``: ask a site, submit probe jobs as its users, say what must be mended."""
