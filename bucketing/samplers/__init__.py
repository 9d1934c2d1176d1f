"""Batch samplers by length, and the plan of an epoch that they make."""
