"""Classes of a source: the names that number its labels, and the choice of samples by class."""
