"""Suites of measurements, and how far predictions are from them."""
