"""Selection of samples: by position, mask, condition, class or split."""
