"""Datasets at URLs: reading them, caching parts of their shards, and staging them whole on a local disk."""
