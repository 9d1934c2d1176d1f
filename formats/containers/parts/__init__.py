"""Parts of the records of other programs: labels, raw pixels, objects."""
