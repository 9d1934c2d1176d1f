"""Threads and processes: how many to use, and how to run work on them."""
