"""The accuracy of a training with each loader."""
