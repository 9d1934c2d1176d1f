"""Reference implementation of every transform in NumPy and Pillow, one sample at a time."""
