"""Columns of the index: strings, lists, and the annotations of objects that several columns hold."""
