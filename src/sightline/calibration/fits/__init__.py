"""Fits of constants to measurements: robust least squares, priors, and surfaces of what a formula leaves unexplained."""
