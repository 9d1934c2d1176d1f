"""Reports on a plan: padding, shapes, randomness, and balance of the ranks."""
