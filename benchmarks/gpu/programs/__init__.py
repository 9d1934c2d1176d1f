"""What the steps of a run on a GPU execute, by subject."""
