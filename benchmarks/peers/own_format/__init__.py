"""Peers that read their own formats, which they write from the same payloads."""
