"""Execution of an epoch: loader base, prefetching, checkpoints, statistics and ranks."""
