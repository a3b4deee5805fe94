"""Predictions anchored to one's own runs: what a few measured steps or requests teach about all other plans."""

from sightline.prediction.anchoring.anchored import Anchored, anchored
from sightline.prediction.anchoring.given import Anchor, anchors_of

__all__ = ["Anchor", "Anchored", "anchored", "anchors_of"]
