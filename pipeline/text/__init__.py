"""Batches of text: decided from lengths, read, padded or packed."""
