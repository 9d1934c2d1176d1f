"""Data that stays in its files: an index makes a dataset of images, or of the shards of other programs."""
