"""Measurements of loaders with workers on a Ray cluster."""
