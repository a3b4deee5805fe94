"""The memory ledger: bytes by part of what a device holds, and the fullest of several moments or devices."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, reduce

from sightline.profile import MEMORY_PARTS, NumbersOnDemand
from sightline.quantities import Number, added_up, anywhere, either, larger, plain

Ledger = Mapping[str, tuple[Number, ...]]
"""Summands of each part (``MEMORY_PARTS``) that is there."""


def terms_of(ledger: Ledger) -> tuple[Number, ...]:
    """Return the summands of all parts."""
    return tuple(term for terms in ledger.values() for term in terms)


def parts_of(ledger: Ledger) -> NumbersOnDemand:
    """Return the bytes of each part, added up when they are read."""
    return NumbersOnDemand({name: partial(added_up, ledger.get(name, (0.0,))) for name in MEMORY_PARTS})


def fullest(
    ledgers: Sequence[Mapping[str, Number]], totals: Callable[[], Sequence[Number]]
) -> dict[str, Callable[[], Number]]:
    """Return functions that give the parts of the ledger with the largest total, plan by plan, and ``total``."""
    of = _Fullest(ledgers, totals)
    return {**{name: partial(of.part, name) for name in MEMORY_PARTS}, "total": lambda: reduce(larger, of.totals)}


class _Fullest:
    """The choice among ledgers by their totals, made once when it is first asked for."""

    def __init__(self, ledgers: Sequence[Mapping[str, Number]], totals: Callable[[], Sequence[Number]]) -> None:
        self._ledgers, self._totals = ledgers, totals

    @cached_property
    def totals(self) -> Sequence[Number]:
        """The total of each ledger."""
        return self._totals()

    @cached_property
    def choices(self) -> list[tuple[Mapping[str, Number], object]]:
        """Each ledger but the first, and where it is fuller than all before it."""
        most, *others = self.totals
        chosen: list[tuple[Mapping[str, Number], object]] = []
        for ledger, total in zip(self._ledgers[1:], others, strict=True):
            chosen.append((ledger, total > most))
            most = larger(most, total)
        return chosen

    def part(self, name: str) -> Number:
        """Return the bytes of a part in the fullest ledger."""
        size = self._ledgers[0][name]
        for ledger, fuller in self.choices:
            if anywhere(fuller):
                size = either(fuller, ledger[name], size)
        return plain(size)
