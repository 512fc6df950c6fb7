"""How figures and documents are written: quantities, durations, YAML and its scalars. Pure."""
