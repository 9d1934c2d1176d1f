"""Stoker with each of its engines, and as other projects have measured themselves."""
