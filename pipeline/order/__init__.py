"""Order of an epoch: permutations, weighted draws, mixtures and the share of each rank."""
