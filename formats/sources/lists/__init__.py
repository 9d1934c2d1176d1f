"""Lists of files as sources: CSV, JSON and JSON Lines."""
