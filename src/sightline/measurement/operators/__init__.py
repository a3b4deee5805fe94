"""Single operators, and the suites that a device's constants are fitted to."""
