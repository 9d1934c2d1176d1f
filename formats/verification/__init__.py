"""Verification of a dataset: digests, checksums, annotations and decodability."""
