"""The virtual nodes: their objects, the state of their queues, and the Pods of DaemonSets on them."""
