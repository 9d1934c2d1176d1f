"""Datasets at URLs: their manifest and index, and local caches of their shards."""
