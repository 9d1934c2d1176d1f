"""Open Images' boxes and masks."""
