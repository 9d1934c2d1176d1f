"""Boundaries of length buckets, chosen by rule or by exact optimisation."""
