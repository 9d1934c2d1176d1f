"""Epochs of a loader: its passes, its steps, and what a whole epoch needs."""
