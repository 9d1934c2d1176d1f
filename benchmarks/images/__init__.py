"""Benchmarks of image loading; ``python -m stoker.benchmarks.images`` compares Stoker with other loaders."""
