"""Background work: a thread that takes one turn after another, and pauses that grow with failures."""
