"""The answer of a search of plans, as people and programs read it."""
