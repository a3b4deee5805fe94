"""How far the predicted memory of a training step may be off: an 80 % interval of the fullest device's total."""

from collections.abc import Mapping
from math import exp
from typing import Final

from sightline.profile import Profile

MEMORY_SPREAD: Final = 0.05
"""Half-width of the interval, as a natural logarithm.

From four published sources that state the memory of whole devices: the fit parts of the suites
qwen-finetuning-memory, litgpt-finetuning-memory, simumax-b200-memory and torchtitan-memory, whose errors have root mean
squares of 3.3, 1.9, 0.8 and 3.8 %. Sources count alike, 2.7 % together; another source lies within Student's t of three
degrees of freedom (1.64) times sqrt(1 + 1/4) of it. Left out: bigscience-tr11-memory, to which the context of its
framework is fitted; that frameworks none of them ran are known less well; and growth with fragmentation.
"""


def memory_interval(profile: Profile) -> Mapping[str, tuple[float, float]]:
    """Return the interval of the fullest device's bytes by its result key."""
    total = float(profile.memory_bytes["total"])
    return {"memory_bytes.total": (total / exp(MEMORY_SPREAD), total * exp(MEMORY_SPREAD))}
