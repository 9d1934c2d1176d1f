"""Measurements of the loading of annotated images."""
