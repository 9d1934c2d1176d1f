"""Columns of batches of images: their names, what makes images, and arrays of the dataset."""
