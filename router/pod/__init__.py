"""A Pod of ours as the API server has it, and its directory on the site. Pure."""
