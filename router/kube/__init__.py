"""Calls to the Kubernetes API: requests, list and watch, Events. Import the modules, not this package."""
