"""Batches of images and their annotations: :class:`stoker.ImageLoader` and its parts."""
