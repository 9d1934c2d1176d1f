"""Text as a source and as token ids in shards."""
