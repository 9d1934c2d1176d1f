"""The container webdataset: tar archives in which neighbouring members with one name form a sample."""
