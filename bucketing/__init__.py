"""Batches by length."""
