"""Descriptions of a dataset, as text and as JSON, and of this machine."""
