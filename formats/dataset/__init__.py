"""A dataset on disk: manifest, sample index, columns and statistics."""
