"""Benchmarks of opening, starting and reading large datasets."""
