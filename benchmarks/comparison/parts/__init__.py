"""The parts of the comparison that measure something else than the rate of images."""
