"""Commands that change datasets, or find what to change."""
