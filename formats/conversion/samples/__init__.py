"""Samples that a Python program hands over, and the datasets that :class:`stoker.Writer` makes of them."""
