"""The making of one shard: the encoder of its samples, its file, and the task that writes it."""
