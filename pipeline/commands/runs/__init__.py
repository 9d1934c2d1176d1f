"""Commands that look at a training: its batches again."""
