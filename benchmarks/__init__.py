"""Benchmarks of Stoker and of other loaders on the same bytes, the same cores and the same work.

The modules and folders; each imports only those before it, and ``measuring`` is for all:

    peers       the loaders that are compared
    comparison  the runs of peers in turns, each in its own process, and the page of their results
    cluster, conversion, decoding, detection, gpu, images, in_place, storage, text, training
                the benchmarks; most are run as a module
"""
