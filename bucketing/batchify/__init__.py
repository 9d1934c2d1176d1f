"""Batchify functions, which turn the samples of a batch into padded or packed arrays."""
