"""Loaders of Stoker: with each engine, and with the settings of other projects' benchmarks."""
