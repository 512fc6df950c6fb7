"""The files that jobs leave on the site: read, cleaned up, brought back, served as logs."""
