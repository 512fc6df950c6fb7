"""The few calls to the Kubernetes API that we make: requests, list and watch, Events. Import the modules, not this."""
