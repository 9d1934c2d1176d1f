"""Checks of training loops that count the steps of an epoch themselves."""
