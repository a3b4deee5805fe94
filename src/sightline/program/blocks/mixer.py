"""What every kind of token mixer answers: its steps, what it caches, and the products that a token takes part in.

One class per kind, in a module of this folder; `sightline.program.blocks.layer` lists them by what describes them in a
model.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sightline.program.kernels import Kernels
from sightline.program.program import Step, Sublayer, group_by_group
from sightline.quantities import Number
from sightline.scenario import Heads, LayerKind, Model

Figures = TypeVar("Figures")


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenMixer(ABC, Generic[Figures]):
    """The mixer of one kind of layers of a model."""

    model: Model
    kind: LayerKind
    figures: Figures
    """What describes it (`sightline.scenario.blocks`)."""

    @property
    def heads(self) -> Heads:
        """The head shape that its core works with."""
        return self.model.heads_of(self.kind)

    @property
    def calibration(self) -> tuple[str, str] | None:
        """What its kernels are called and the part of a calibration they are in, where they are not plain attention."""
        return None

    @property
    def matrix_elements(self) -> float:
        """Elements of the matrices that a token is multiplied with in one layer.

        An indexer learns from a loss of its own, which hands no gradient on to its inputs: 4 FLOPs of 6.
        """
        return self.model.mixer_parameters(self.kind) - self.model.indexer_parameters(self.kind) / 3.0

    @abstractmethod
    def sublayer(self, x: Kernels) -> Sublayer | None:
        """Return its steps in one layer, whose heads are those of ``x``; None where the layer has no mixer."""

    @abstractmethod
    def cached_bytes(self, tokens: Number, element_bytes: float, t: Number) -> Number:
        """Return the bytes that a sequence of ``tokens`` keeps in one layer on each of ``t`` tensor-parallel ranks.

        ``element_bytes`` is the size of a cached element of attention.
        """

    @abstractmethod
    def products(self, tokens: float) -> float:
        """Return the multiply-adds of a token in a sequence of ``tokens``: with a state, or of scores and context."""


class NoMixer(TokenMixer[None]):
    """A layer without a mixer (pruned models)."""

    def sublayer(self, x: Kernels) -> None:
        """Nothing runs."""

    def cached_bytes(self, tokens: Number, element_bytes: float, t: Number) -> Number:
        """Nothing is kept."""
        return 0.0

    def products(self, tokens: float) -> float:
        """Nothing is multiplied."""
        return 0.0


def by_group(x: Kernels, write: Callable[[Kernels], Iterable[Step]]) -> list[Step]:
    """Return the steps of a mixer that treats each group of a batch's sequences by itself."""
    groups: Sequence[Kernels] = x.groups()
    return group_by_group(groups, write)
