"""What a loader measures of itself: the stages of its work, and statistics."""
