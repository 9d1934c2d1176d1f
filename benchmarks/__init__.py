"""Stoker against the native loaders, side by side: the same bytes, the same cores, the same work."""
