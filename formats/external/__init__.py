"""Shards that other programs wrote: they are indexed where they lie."""
