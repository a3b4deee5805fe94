"""The store of runs: a folder each, with what was asked, what came out, and what it ran on."""

from sightline.runs.store import Run, Store, open_store

__all__ = ["Run", "Store", "open_store"]
