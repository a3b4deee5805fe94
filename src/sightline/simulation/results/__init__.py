"""Turns the outcome of a load into result figures."""
