"""Studies of one's own: a base scenario, axes over it, and the table of all points."""
