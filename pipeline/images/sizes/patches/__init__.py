"""Packed rows of patches of images: what a user asks for, its plan, and the columns of a batch."""
