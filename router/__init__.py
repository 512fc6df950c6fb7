"""Batchgate: a gate for batch work in Kubernetes."""

__version__ = "0.1.0"
