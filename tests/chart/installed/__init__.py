"""The chart on a real node of a real control plane: what an admin types, from ``docs/install.md``."""
