"""The native engine: Python side of the C++ module."""
