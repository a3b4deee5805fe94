"""The memory ledger: bytes by part of what a device holds at a moment, and the fullest of several moments or devices."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial, reduce

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
    totals = cache(totals)

    @cache
    def choices() -> list[tuple[Mapping[str, Number], object]]:
        most, *others = totals()
        chosen: list[tuple[Mapping[str, Number], object]] = []
        for ledger, total in zip(ledgers[1:], others, strict=True):
            chosen.append((ledger, total > most))
            most = larger(most, total)
        return chosen

    def part(name: str) -> Number:
        size = ledgers[0][name]
        for ledger, fuller in choices():
            if anywhere(fuller):
                size = either(fuller, ledger[name], size)
        return plain(size)

    return {**{name: partial(part, name) for name in MEMORY_PARTS}, "total": lambda: reduce(larger, totals())}
