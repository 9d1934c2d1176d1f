"""Objects and masks of batches, under the parameters of their images."""
