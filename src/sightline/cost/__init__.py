"""Seconds of operators on a device."""
