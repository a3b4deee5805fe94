"""Scenarios that leave fields free or restrict them to several values, read into spaces of plans."""
