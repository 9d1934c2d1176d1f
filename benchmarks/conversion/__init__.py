"""Benchmarks of converting images and of listing a source."""
