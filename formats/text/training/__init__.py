"""Texts that are put together of several values, and the parts of them that a model is trained on."""
