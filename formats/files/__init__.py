"""Files on a local disk: guarded reading, and writing that publishes whole files only."""
