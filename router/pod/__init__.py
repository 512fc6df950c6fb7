"""Reads a routed Pod as the API server has it, and names the files of its directory on the site. Pure."""
