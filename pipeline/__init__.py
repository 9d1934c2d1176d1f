"""Loaders, and all that runs between a dataset and a training step.

The folders, in the order in which they build on each other; each imports from those before it alone:

- ``execution``: what every loader does: passes, prefetching, threads, states, statistics, ranks.
- ``description``: loaders as data that JSON can hold.
- ``order``: which samples an epoch draws, and in which order; mixtures of datasets.
- ``caching``: bytes of remote datasets, fetched ahead of the batches that need them.
- ``engines``: the parameters of images executed on their bytes; ``native`` (C++), ``dali`` and ``reference``.
- ``adapters``: batches as arrays of a framework, one module for each.
- ``images``: :class:`stoker.ImageLoader`; ``text``: :class:`stoker.TextLoader`. Neither imports the other.
- ``preview``: sheets that show samples and what transforms make of them.
- ``replay``: batches of a training, made again and shown.
- ``commands``: the command line.
"""
