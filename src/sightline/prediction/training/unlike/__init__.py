"""A training step on unlike devices: groups of equal ones, each priced by the functions of one group, and joined."""
