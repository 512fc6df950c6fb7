"""Reads and writes figures and documents: quantities, durations, YAML and its scalars. Pure."""
