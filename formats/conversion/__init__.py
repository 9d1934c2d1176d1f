"""From a listed source to published shards: plan, encode, write, resume."""
