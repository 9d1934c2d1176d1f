"""Targets of a conversion, a folder or a URL, and its state there until it is finished."""
