"""Predictions of single operators: the costs that steps and generations are made of, on their own."""
