"""Findings that are several statements: judged by the share of them that hold."""

from collections.abc import Mapping
from statistics import fmean

from sightline.reproduction.answer import Reading


def judged(statements: Mapping[str, bool], sentence: str, reading: str = "") -> Reading:
    """Return a reading by the share of its statements that hold; those that do not are named after the figures.

    Args:
        statements: Whether each holds, by what it says.
        sentence: The figures behind them.
        reading: As `Reading` has it.
    """
    failed = [words for words, holds in statements.items() if not holds]
    named = f" Not so: {'; '.join(failed)}." if failed else ""
    return Reading(ours=fmean(statements.values()), sentence=f"{sentence}{named}", reading=reading)
