"""Masks beside images: masks of classes, and masks whose values number objects."""
