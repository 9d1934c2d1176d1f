"""The container MDS: shards of Mosaic Streaming, read in place."""
