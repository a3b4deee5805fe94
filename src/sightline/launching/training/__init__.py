"""Launches of training frameworks: written, and read back."""
