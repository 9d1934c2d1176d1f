"""Ways to make the shards of a plan: on threads of this process, or as tasks of a Ray cluster."""
