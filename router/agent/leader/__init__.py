"""The agent as a process: from its start to its end, and while it leads."""
