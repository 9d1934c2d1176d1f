"""Benchmarks of Stoker and of other loaders on the same bytes, the same cores and the same work.

The folders; each imports only those before it:

    peers       the loaders that are compared, one in each file
    report      results as data, tables and pictures; the machine, and goals
    comparison  the runs of peers in turns, each in its own process
    cluster, conversion, decoding, detection, gpu, images, storage, text, training
                the benchmarks; most are run as a module
"""
