"""A source as its package describes it: what answers its findings and tables, and what it assumes."""

from collections.abc import Sequence
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What reproduces a source."""

    findings: Findings
    tables: Tables
    assumptions: Sequence[str]
    """About settings that the source does not state."""
    measured: Measured | None = None
    """None where nothing of it can be measured."""
