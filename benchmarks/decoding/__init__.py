"""Benchmarks of decoding, and of the C++ engine over decoding alone."""
