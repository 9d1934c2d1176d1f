"""Packing of several sequences into rows of a fixed capacity."""
