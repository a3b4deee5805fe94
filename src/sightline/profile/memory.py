"""Parts of a device's memory, and the memory ledger of a pipeline stage."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from sightline.quantities import Number, as_python

MEMORY_PARTS = ("weights", "gradients", "optimizer", "activations", "kv_cache", "buffers", "framework")
"""Parts of the fullest device's memory, in bytes; they sum to ``total``."""

BETWEEN_PASSES = "between passes"
"""The moment of a step at which only persistent memory is allocated, gradients included."""


class NumbersOnDemand(Mapping[str, Number]):
    """Named numbers, some given as functions that run when the number is first read."""

    def __init__(self, numbers: Mapping[str, Number | Callable[[], Number]]) -> None:
        self._numbers = dict(numbers)

    def __getitem__(self, name: str) -> Number:
        number = self._numbers[name]
        if callable(number):
            self._numbers[name] = number = number()
        plain: Number = as_python(number)
        return plain

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle with every number computed."""
        return NumbersOnDemand, (dict(self),)

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageMemory:
    """One pipeline stage's memory ledger: bytes by part (``MEMORY_PARTS``) and the named items inside them."""

    stage: str
    """first, middle (the heaviest of them) or last; a single stage is the first."""
    parts: Mapping[str, Number]
    items: Mapping[str, Number]
    """Finer lines, such as ``layer activations``, ``logits``, ``recomputation working set``."""
    moments: Mapping[str, Number]
    """Bytes of all parts at each moment of a step that may be the fullest; the parts are those of the fullest."""

    @property
    def total(self) -> Number:
        """Bytes of all parts."""
        fullest: Number = as_python(reduce(np.maximum, self._moments_of_passes().values()))
        return fullest

    @property
    def peak(self) -> str:
        """The moment of a step at which the stage's device is fullest (one plan only)."""
        moments = self._moments_of_passes()
        return max(moments, key=lambda name: float(moments[name]))

    def _moments_of_passes(self) -> dict[str, Number]:
        return {name: size for name, size in self.moments.items() if name != BETWEEN_PASSES}
