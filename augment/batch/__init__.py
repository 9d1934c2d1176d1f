"""Transforms of whole batches: MixUp, CutMix and Mosaic."""
