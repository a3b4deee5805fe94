"""A trace of a user's own job explained."""
