"""Batches that other machines make for a loader: its copies there, and the dispatcher that asks them.

:mod:`.loader` is the base of loaders that can have workers, :mod:`.dispatcher` chooses the maker of a batch,
:mod:`.ray_pool` speaks with Ray, and :mod:`.batch_maker` runs on the other machines.
"""
