"""What jobs leave on the site: looked at, cleaned up, brought back, served as logs."""
