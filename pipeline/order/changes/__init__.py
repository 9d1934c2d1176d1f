"""Changes of a loader's draws while a training runs: samples left out, weights of a mixture."""
