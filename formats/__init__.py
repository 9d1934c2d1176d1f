"""Bytes on disk: containers, the sample index, conversion, verification."""
