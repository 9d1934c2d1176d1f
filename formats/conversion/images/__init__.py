"""Encoding of images, objects and masks for a conversion."""
