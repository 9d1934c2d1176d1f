"""Batch samplers, and the plan of an epoch that a batch sampler makes."""
