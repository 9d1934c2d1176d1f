"""Order of an epoch: the samples that it draws, their sequence, and the share of each rank.

Loaders ask :func:`.sampling.make_loader_order` for an order and give it to a schedule. The glossary in
``docs/architecture.md`` defines source, position, row, draw, global batch, cycle and offset.

Everything is a pure function of epoch and draw. So an epoch can start at any draw, a checkpoint is a number,
and the loader knows ahead which bytes it will read.
"""
