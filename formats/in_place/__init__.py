"""Sources of images that are read in place: an index makes them a dataset, and no image is copied.

:mod:`.images` lists a source, reads the header of each image and writes the index, into a folder of the
user's choice (``stoker index``) or into the cache of indexes (:mod:`.cached_images`, for ``stoker.open``).
"""
