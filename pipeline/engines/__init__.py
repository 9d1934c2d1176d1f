"""Engines: the parameters of a batch of images, executed on the bytes of its samples."""
