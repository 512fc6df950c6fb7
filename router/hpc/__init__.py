"""Batch systems: one module each, argv builders, parsers and one state table."""
