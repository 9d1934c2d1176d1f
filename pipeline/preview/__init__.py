"""Pages of samples: previews of datasets and transforms, and replays of batches."""
