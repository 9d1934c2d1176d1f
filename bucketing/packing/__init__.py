"""Packing of several sequences into each row of a fixed capacity, and streams of sequences."""
