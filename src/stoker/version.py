"""The version of Stoker, which is part of the fingerprint of a conversion."""

__version__ = "0.2.0"
