"""The chart ``charts/batchgate``, and ``manifests/``, which is made from it."""
