"""What a suite of measurements is: cases, each a scenario with the value somebody measured, fit or test."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

Split = Literal["fit", "test"]

SPLIT_SEED = 186
"""Chosen, before any error was looked at, so that every suite falls about half and half. Never to be changed."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The measurements of one source, and what had to be decided to read them."""

    name: str
    quantity: str
    source: str
    decisions: tuple[str, ...]
    cases: tuple[Case, ...]
    left_out: Mapping[str, int]
    """Rows of the source that are not cases: reason to number."""


def split_of(hidden_size: int, layers: int, heads: int, devices: int) -> Split:
    """Return the part that all measurements of a model shape on a number of devices belong to.

    By hash, so it is fixed, and by shape rather than by row, so no neighbour of a test case is ever fitted on.
    """
    digest = sha256(f"sightline-{SPLIT_SEED}:{hidden_size}-{layers}-{heads}-{devices}".encode()).digest()
    return "test" if digest[0] % 2 else "fit"
