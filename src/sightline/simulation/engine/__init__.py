"""The compiled loop of a serving engine: requests, sequences, blocks of the cache, and iterations."""

# Before any other module asks for numba: it says what is wrong where that does not fit.
from sightline.simulation import compiled as compiled
