"""Contact sheets: samples of a dataset before and after transforms."""
