"""Order of an epoch: which samples it draws, in which sequence, and which rank gets which of them.

Loaders ask :func:`.sampling.make_loader_order` for an order and give it to a schedule. The glossary in
``docs/architecture.md`` defines source, position, row, draw, global batch, cycle and offset.

Everything is a pure function of epoch and draw. So an epoch can start at any draw, a checkpoint is a number,
and the loader knows ahead which bytes it will read.
"""
