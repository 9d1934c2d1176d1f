"""The comparison of loaders, each in its own process on the same cores, in interleaved turns."""
