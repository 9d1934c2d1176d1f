"""Bytes on disk: containers, the sample index, conversion, verification.

``sources`` finds samples and what is known of them, ``conversion`` plans, encodes and writes shards, ``text``
does both for text, and ``remote`` has datasets and sources that lie elsewhere. What stands beside them is a
dataset on disk: its manifest, index and containers, and who reads and checks them.
"""
