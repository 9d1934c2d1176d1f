"""The comparison of loaders: each in a process of its own, pinned to the same cores, in interleaved turns."""
