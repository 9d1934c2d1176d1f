"""Which sequences form the batches of an epoch of text, decided from their lengths."""
