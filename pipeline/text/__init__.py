"""Batches of text, padded or packed: :class:`stoker.TextLoader` and its parts."""
