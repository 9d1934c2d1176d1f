"""Containers of records, and the messages inside them."""
