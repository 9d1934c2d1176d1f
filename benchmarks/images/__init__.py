"""Benchmarks of the loading of images by Stoker alone, and beside other libraries' transforms."""
