"""Execution of an epoch: the loader's base class, prefetching, checkpoints, statistics and ranks.

:class:`.loader.Loader` starts a pass, a :class:`.prefetch.Prefetcher` makes its batches on a worker thread,
and an :class:`.epochs.epoch_iterator.EpochIterator` hands them to the consumer and counts them for
checkpoints. A pass is one iteration over a loader: an epoch, or the rest of one. :mod:`.interrupts`
handles Ctrl-C and forks.
"""
