"""YOLO's text files as a source."""
