"""Loaders, and all that runs between a dataset and a training step.

``loader`` is the base of both loaders, and ``options`` has their option objects. The folders, in the order in
which they build on each other; each imports only from those before it:

- ``order``: which samples an epoch draws, and in which order; mixtures of datasets.
- ``execution``: passes, pipelines, threads, states, statistics, ranks.
- ``cluster``: batches that other machines make.
- ``caching``: bytes of remote datasets, fetched ahead of the batches that need them.
- ``engines``: images made from bytes and drawn parameters; ``native`` (C++), ``dali`` and ``reference``.
- ``adapters``: batches as arrays of a framework, one module for each.
- ``images``: :class:`stoker.ImageLoader`; ``text``: :class:`stoker.TextLoader`. Neither imports the other.
- ``preview``: pages that show samples, batches, and what transforms make of them.
- ``commands``: the command line.
"""
