"""The functions that the steps of a run on a GPU execute, by subject."""
