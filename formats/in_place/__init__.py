"""Images that are read in place: an index makes a dataset of them, and no image is copied.

:mod:`.images` lists a source, reads the header of each image and writes the index. The index goes into a
folder that the user names (``stoker index``), or into the cache of indexes (:mod:`.cached_images`, for
``stoker.open``).
"""
