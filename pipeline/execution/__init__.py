"""Execution of an epoch: passes over a pipeline, threads, states, statistics and ranks.

A pass is one iteration over a loader: an epoch, or the rest of one.
"""
