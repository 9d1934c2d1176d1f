"""Epochs of a loader: its passes, its steps, and values that are computed once for an epoch."""
