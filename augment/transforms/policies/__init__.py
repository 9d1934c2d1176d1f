"""Transforms that choose among other transforms: RandomApply, RandAugment and the like."""
