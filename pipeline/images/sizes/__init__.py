"""Sizes of images that differ between batches: schedules, and the steps of epochs that follow them."""
