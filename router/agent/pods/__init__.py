"""The Pods on the virtual nodes: watched, planned for and acted upon, one step at a time."""
