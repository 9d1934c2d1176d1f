"""Threads for the rest of the package: how many to use, and how to run work on them."""
