"""Benchmarks of Stoker and of other loaders on the same bytes, the same cores and the same work.

The folders, each of which imports only those before it:

    peers       the loaders that are compared, one a file
    report      results as data, tables and pictures; the machine, and goals
    comparison  the runs of peers: each in a process of its own, in turns
    conversion, images, storage, text, training
                the benchmarks, most of which are run as a module
"""
