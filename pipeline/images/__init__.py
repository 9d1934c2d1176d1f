"""Batches of images: decided, executed by an engine, with the annotations that follow them."""
