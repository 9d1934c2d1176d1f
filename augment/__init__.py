"""What happens to a sample, as data."""
