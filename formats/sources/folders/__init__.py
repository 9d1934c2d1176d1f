"""Folders of a source, on a disk or at a URL, and the images in them."""
