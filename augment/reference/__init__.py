"""Reference execution of parameters in NumPy and Pillow, one sample at a time."""
