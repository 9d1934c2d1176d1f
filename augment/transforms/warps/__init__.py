"""Transforms whose geometry is not along the axes: warps, and crops around objects."""
