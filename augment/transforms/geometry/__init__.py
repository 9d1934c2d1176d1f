"""Transforms that change geometry: crops, resizes, flips, padding and warps."""
