"""Transforms of images that make one image of several samples: mosaics, MixUp and pasted objects."""
