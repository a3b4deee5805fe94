"""What a suite of measurements is: cases, each a scenario with the value somebody measured, fit or test."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal

from sightline.lazy_dataclass import dataclass

Split = Literal["fit", "test"]
Kind = Literal["training", "generation", "operators"]

SPLIT_SEED = 186
"""Chosen, before any error was looked at, so that every training suite falls about half and half. Never to be
changed. A suite with few families states a seed of its own, chosen for its balance and as blindly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One measurement."""

    scenario: Mapping[str, Any]
    """As a scenario file would hold it."""
    measured: float
    """In SI units, of the suite's quantity."""
    split: Split
    baseline: Mapping[str, Any] | None = None
    """The scenario that a relative quantity is divided by."""
    alternative: Mapping[str, Any] | None = None
    """Another scenario that may have been run: the source does not tell them apart, and an interval spans both."""
    stage: int = 0
    """The pipeline stage it was measured on, where the quantity is one stage's; -1 is the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The measurements of one source, and what had to be decided to read them."""

    name: str
    kind: Kind = "training"
    quantity: str
    source: str
    decisions: tuple[str, ...]
    cases: tuple[Case, ...]
    left_out: Mapping[str, int]
    """Rows of the source that are not cases: reason to number."""
    goal: str = ""
    """What the project set itself for the test part, in words."""


def split_of(*family: object, seed: int = SPLIT_SEED) -> Split:
    """Return the part that all measurements of a family belong to: those that share all of these values.

    By hash, so it is fixed, and by family rather than by row, so no neighbour of a test case is ever fitted on. The
    family of a training measurement is its model's shape and its number of devices.
    """
    return "test" if digest(family, seed) % 2 else "fit"


def digest(family: Sequence[object], seed: int = SPLIT_SEED) -> int:
    """Return a number from 0 to 255 that depends on nothing but these values."""
    return sha256(f"sightline-{seed}:{'-'.join(str(value) for value in family)}".encode()).digest()[0]
