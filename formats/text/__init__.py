"""Text as a source, and its conversion into shards of token ids."""
