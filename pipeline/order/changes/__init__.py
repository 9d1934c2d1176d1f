"""Changes of what a loader draws while a training runs: samples left out, weights of a mixture."""
