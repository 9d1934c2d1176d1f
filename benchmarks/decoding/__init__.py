"""Benchmarks of decoding, and of the C++ engine beside decoding alone."""
