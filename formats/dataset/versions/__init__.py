"""Versions of a dataset: their names, their manifests, their history, and the publication of the next one."""
