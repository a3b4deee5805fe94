"""What training frameworks and inference engines do: their behavior in groups, by release line, from the catalog."""

from typing import TYPE_CHECKING

from sightline.frameworks.behavior import date_remark, offering, read_engine, read_framework
from sightline.frameworks.framework import PLAIN_ALLOCATION, Framework, StateBytes, TensorOverlap
from sightline.on_demand import names_on_demand

if TYPE_CHECKING:
    from sightline.frameworks.engine import Engine
else:
    __getattr__, __dir__ = names_on_demand(__name__, {"sightline.frameworks.engine": "Engine"})

__all__ = [
    "PLAIN_ALLOCATION",
    "Engine",
    "Framework",
    "StateBytes",
    "TensorOverlap",
    "date_remark",
    "offering",
    "read_engine",
    "read_framework",
]
