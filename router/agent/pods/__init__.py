"""The Pods on the virtual nodes: watched, and reconciled one step at a time."""
