"""Contact sheets: samples of a dataset, and what transforms make of them."""
