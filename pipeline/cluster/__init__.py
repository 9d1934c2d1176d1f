"""Batches that other machines make for a loader: its copies there, and the choice of who makes a batch.

:mod:`.workers` chooses the maker of a batch, :mod:`.ray_pool` speaks with Ray, and :mod:`.batch_maker` runs
on the other machines.
"""
