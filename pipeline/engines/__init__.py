"""Engines execute parameters: one contract, three implementations."""
