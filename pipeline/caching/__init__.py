"""Prefetching of remote shards into a local cache, ahead of the loader."""
