"""Reports on a plan of batches: padding, shapes, randomness and balance of ranks."""
