"""Mixtures of several datasets as one source of samples."""
