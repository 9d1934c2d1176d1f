"""State of a batch between two transforms: geometry, colour, padding and warp."""
