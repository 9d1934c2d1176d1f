"""Benchmarks of training: accuracies, and feeding a GPU."""
