"""Predictions anchored to one's own runs: what a few measured steps or requests teach about all other plans."""

from typing import TYPE_CHECKING

from sightline.on_demand import names_on_demand

if TYPE_CHECKING:
    from sightline.prediction.anchoring.anchor import Anchor
    from sightline.prediction.anchoring.anchored import Anchored, learn
else:
    __getattr__, __dir__ = names_on_demand(
        __name__,
        {
            "sightline.prediction.anchoring.anchor": "Anchor",
            "sightline.prediction.anchoring.anchored": "Anchored learn",
        },
    )

__all__ = ["Anchor", "Anchored", "learn"]
