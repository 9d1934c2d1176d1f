"""The parts of the comparison, and their common command line and tables."""
