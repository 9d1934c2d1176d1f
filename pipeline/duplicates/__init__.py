"""Near and exact duplicates among the images of datasets, for ``stoker duplicates``."""
