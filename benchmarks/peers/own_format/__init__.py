"""Peers that read a format of their own, which they write of the same payloads."""
