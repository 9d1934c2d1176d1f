"""Verification of datasets: digests, checksums, annotations, and whether images can be decoded."""
