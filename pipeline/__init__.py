"""Execution: order, engines, prefetching, loaders, adapters, the command line."""
