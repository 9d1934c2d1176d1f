"""Masks, which hide tokens that a model is to predict: single tokens and words, or spans."""
