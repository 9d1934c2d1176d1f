"""The engine of an image loader: its choice, its trial, and its images."""
