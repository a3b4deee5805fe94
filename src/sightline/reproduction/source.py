"""A source as its package describes it: what answers its findings and tables, and what it assumes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from sightline.progress import Progress
from sightline.reproduction.answer import ReproducedTable
from sightline.reproduction.asking import Findings, Tables
from sightline.runs import Store


class Measured(Protocol):
    """What measures a source's tables on the machine at hand."""

    def __call__(self, store: Store, *, small: bool, progress: Progress) -> Sequence[ReproducedTable]:
        """Return the tables; runs are kept in the store, and ``small`` has few of them."""


@dataclass(frozen=True, slots=True)
class Assumption:
    """What is assumed of settings that a source does not state."""

    sentence: str
    about: Collection[str] = ()
    """Ids of the findings and tables that rest on it; empty where all of the source do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What reproduces a source."""

    findings: Findings
    tables: Tables
    assumptions: Sequence[Assumption]
    measured: Measured | None = None
    """None where nothing of it can be measured."""
    without_pictures: Collection[str] = ()
    """Ids of the tables that are rows alone."""

    def assumed(self, ids: Collection[str]) -> Sequence[str]:
        """Return what is assumed for findings and tables."""
        return [one.sentence for one in self.assumptions if not one.about or not set(ids).isdisjoint(one.about)]
