"""Formulas on arrays: colours, noise, displacement fields, resampling and Dirichlet distributions."""
