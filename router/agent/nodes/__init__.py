"""The virtual nodes: their objects, the state of their queues, DaemonSets that must leave them alone."""
