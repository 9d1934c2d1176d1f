"""Captions beside images in a batch: their form, the draw of one of several, and their arrays."""
