"""Findings that are several statements: judged by the share of them that hold."""

from collections.abc import Mapping
from statistics import fmean

from sightline.reproduction.open_settings import ChoiceBySetting
from sightline.reproduction.outcome import Interpretation


def judged(statements: Mapping[str, bool], sentence: str, choices: ChoiceBySetting | None = None) -> Interpretation:
    """Return an interpretation by the share of its statements that hold; after the figures those that do not are named.

    Args:
        statements: Whether each holds, by what it says.
        sentence: The figures behind them.
        choices: As `Interpretation` has it.
    """
    failed = [said for said, holds in statements.items() if not holds]
    named = f" Not so: {'; '.join(failed)}." if failed else ""
    return Interpretation(values=[fmean(statements.values())], sentence=f"{sentence}{named}", choices=choices or {})
