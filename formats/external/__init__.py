"""External shards, which other programs wrote: an index makes them a dataset, and they stay as they are."""
