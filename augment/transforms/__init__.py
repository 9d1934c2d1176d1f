"""Transforms of images, one file a subject; ``stoker.augment`` has the table of their names."""
