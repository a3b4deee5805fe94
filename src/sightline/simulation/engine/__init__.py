"""The compiled loop of a serving engine: requests, sequences, blocks of the cache, and iterations."""
