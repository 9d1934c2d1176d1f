"""The command `stoker buckets`: ways of making batches by size, compared for text and for images."""
