"""Functions that turn lists of samples into padded or packed arrays."""
