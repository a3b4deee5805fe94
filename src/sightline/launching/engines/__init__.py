"""Serving engines: the commands that start their servers, and such commands read back."""
