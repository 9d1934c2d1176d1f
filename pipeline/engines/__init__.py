"""Engines execute parameters: one contract, two implementations."""
