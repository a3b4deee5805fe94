"""A serving engine simulated event by event over predicted iteration times."""
