"""A processor as its own measurements say it: operators, a step's calls and caches, sharded steps."""
