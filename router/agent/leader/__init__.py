"""The agent as a process: what runs from its start to its end, and while it leads."""
