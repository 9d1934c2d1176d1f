"""Execution: order, engines, prefetching, loaders, adapters, the command line.

``images`` and ``text`` have the two loaders and how they decide and make their batches, ``engines`` what
executes a batch of images (``native`` is the C++), ``adapters`` a file for each framework, ``commands`` and
``preview`` the command line. What stands beside them serves both loaders.
"""
