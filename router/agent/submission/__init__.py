"""Turns a Pod into a batch job: images, the Pod's directory, the submit command, later attempts."""
