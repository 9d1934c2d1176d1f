"""Checks of the values that a program gives for a sample."""
