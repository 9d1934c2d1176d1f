"""A loader's measurements of itself: the stages of its work, and statistics."""
