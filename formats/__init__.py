"""Bytes on disk: shards, the sample index, and all that makes, opens and checks a dataset.

The table of formats in docs/architecture.md names the parts; each imports only from the parts above it.
"""
