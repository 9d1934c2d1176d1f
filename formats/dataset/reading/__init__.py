"""Reading of a dataset's samples."""
