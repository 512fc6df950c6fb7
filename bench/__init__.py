"""Benchmarks: ratios measured in one run, because machines are noisy. ``make bench`` runs them all."""
