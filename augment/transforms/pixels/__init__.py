"""Transforms that change pixels and the output's form: colour, filters, erasing, normalisation."""
