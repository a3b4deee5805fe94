"""Predictions anchored to one's own runs: what a few measured steps or requests teach about all other plans."""

from sightline.prediction.anchoring.anchor import Anchor
from sightline.prediction.anchoring.anchored import Anchored, learn

__all__ = ["Anchor", "Anchored", "learn"]
