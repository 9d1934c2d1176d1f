"""The container webdataset: tar archives whose neighbouring members of one name form a sample."""
