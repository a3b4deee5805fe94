"""The page: a local web server that shows what Sightline knows, and answers programs over HTTP."""
