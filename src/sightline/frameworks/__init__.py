"""What training frameworks and inference engines do: their behavior in groups, by release line, as catalog entries state it."""

from sightline.frameworks.behavior import offering, read_engine, read_framework
from sightline.frameworks.engine import Engine, ExpertDispatch
from sightline.frameworks.framework import PLAIN_ALLOCATION, Allocation, Framework, StateBytes, TensorOverlap
