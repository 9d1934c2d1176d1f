"""Benchmarks of batching text by length."""
