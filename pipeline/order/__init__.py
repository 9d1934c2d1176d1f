"""Order of an epoch: which samples it draws, in which sequence, and which rank gets which of them.

Loaders ask :func:`.sampling.make_loader_order` for an order and give it to a schedule. The words have one
meaning each:

- source: the samples that a loader draws from, N of them; a dataset, a selection from one, or a mixture.
- position: the number of a sample in its source, from 0 to N - 1.
- row: the number of a sample in the index of its dataset. A selection has fewer positions than rows; a
  mixture counts the rows of its datasets one after the other.
- epoch: n draws. An order maps the number of a draw, from 0 to n - 1, to a position.
- draw: one element of an epoch. One position can be drawn several times in an epoch, or not at all.
- global batch: the draws that all ranks together receive in one step.
- cycle: one time through all members of a group, or through all draws of an order; offset: the place in a
  cycle.

Everything is a pure function of epoch and draw. So an epoch can start at any draw, a checkpoint is a number,
and the loader knows ahead which bytes it will read.
"""
