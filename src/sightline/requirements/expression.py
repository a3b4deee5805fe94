"""Requirements as they are typed: ``fits``, ``mfu>=0.35``, ``ttft_p90 <= 500 ms``, ``bottleneck==compute``."""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sightline.errors import InputError, nearest
from sightline.kinds import share
from sightline.planning.limits import BY_KEY, read_limit
from sightline.quantities import (
    BYTES,
    BYTES_PER_SECOND,
    COUNT,
    FLOPS,
    JOULES,
    RATE,
    SECONDS,
    TOKENS,
    TOKENS_PER_SECOND,
    USD,
    Dimension,
    parse_quantity,
    show,
)
from sightline.requirements.figures import FITS, Figure, figures_of_scenario, named

COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
"""What an operator asks of a figure and its bound."""
DIMENSIONS: Final[Mapping[str, Dimension]] = {
    "s": SECONDS,
    "tokens/s": TOKENS_PER_SECOND,
    "requests/s": RATE,
    "tokens": TOKENS,
    "FLOP": COUNT,
    "FLOP/s": FLOPS,
    "B": BYTES,
    "B/s": BYTES_PER_SECOND,
    "J": JOULES,
    "USD": USD,
    "share": RATE,
    "count": COUNT,
}
"""By the unit of a metric; bounds of shares may be written in per cent too."""
_ALIKE = {"=>": ">=", "=<": "<=", "=": "==", "≥": ">=", "≤": "<="}
"""Operators that somebody may type instead."""
_EXACT = ("==", "!=")
_FORM = re.compile(r"\s*([^<>=!≥≤]*?)\s*(?:([<>=!≥≤]+)\s*(.*?))?\s*", re.DOTALL)
_JOINED = re.compile(r"\s+and\s+|\s*&+\s*|\s*;\s*", re.IGNORECASE)
"""What somebody may type between requirements instead of a comma."""
_QUOTED = "in quotes, for a shell takes > and < for files"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What one figure of an answer has to be."""

    require: str
    """As it was typed."""
    name: str
    """Of the figure, as it was typed."""
    figure: Figure
    operator: str = ""
    """One of ``COMPARED``; empty for whether it fits."""
    bound: float | str | None = None
    """In the base unit of the figure."""
    written: str = ""
    """The bound as it was typed."""

    @property
    def dimension(self) -> Dimension | None:
        """The kind of quantity that the figure is; None for words."""
        return DIMENSIONS.get(self.figure.unit)


def split(require: str | Iterable[str]) -> list[str]:
    """Return the requirements of one or several lists that are separated by commas, each once."""
    lists = [require] if isinstance(require, str) else list(require)
    found = [one.strip() for several in lists for one in several.split(",")]
    if not found or not all(found):
        raise InputError("--require names nothing between its commas; write such as --require 'fits,mfu>=0.35'")
    return list(dict.fromkeys(found))


def read(texts: Iterable[str], scenario: Any) -> list[Requirement]:
    """Return what is required of the answer to a scenario.

    Raises:
        InputError: Some name no figure of its task, or have a bound that none is.
    """
    task, figures = scenario.workload.task, figures_of_scenario(scenario)
    found, problems = [], []
    for text in texts:
        try:
            found.append(_read(text, figures, task))
        except InputError as error:
            parts = [part.strip() for part in _JOINED.split(text)]
            said = [f"separate requirements with commas, such as '{','.join(parts)}'"]
            problems += [f"--require {show(text)}: {one}" for one in (said if len(parts) > 1 else error.problems)]
    if problems:
        raise InputError(problems)
    return found


def _read(text: str, figures: Mapping[str, Figure], task: str) -> Requirement:
    matched = _FORM.fullmatch(text)
    name, sign, written = matched.groups(default="") if matched else (text, "", "")
    figure = named(name, figures, task)
    if figure.key == FITS:
        if sign:
            raise InputError(f"{FITS} takes no bound; write {FITS} alone")
        return Requirement(require=text, name=name, figure=figure)
    if not sign:
        raise InputError(f"{name} has no bound; write '{name}{_example(figure)}', {_QUOTED}")
    bound = _bound(name, _operator(name, sign, figure), written, figure)
    return Requirement(require=text, name=name, figure=figure, operator=sign, bound=bound, written=written)


def _operator(name: str, sign: str, figure: Figure) -> str:
    """Check an operator: sizes are bounded, words and counts may also be equal."""
    allowed = _EXACT if figure.words else tuple(COMPARED) if figure.unit == "count" else tuple(COMPARED)[:4]
    if sign in allowed:
        return sign
    if sign in _EXACT:
        raise InputError(f"{name} is no count, and hardly ever equal to a bound; allowed: {', '.join(allowed)}")
    near = _ALIKE.get(sign) or nearest(sign, allowed)
    hint = f" - did you mean '{near}'?" if near in allowed else ""
    raise InputError(f"the operator of {name} is {show(sign)}; allowed: {', '.join(allowed)}{hint}")


def _bound(name: str, sign: str, written: str, figure: Figure) -> float | str:
    if not written:
        raise InputError(f"{name} has no bound after {sign}; write '{name}{_example(figure)}', {_QUOTED}")
    if figure.words:
        if written not in figure.words:
            near = nearest(written, figure.words)
            raise InputError(f"{name} is required to be {show(written)}; allowed: {', '.join(figure.words)}{near}")
        return written
    limit = BY_KEY.get(figure.key) or BY_KEY.get(figure.key.partition(".")[0])
    if limit is not None:
        return read_limit(f"the bound of {name}", written, limit[1])
    try:
        if figure.unit == "share":
            return share(_number(written))
        return parse_quantity(written, DIMENSIONS[figure.unit], zero=True)
    except InputError as error:
        raise InputError([f"the bound of {name} {problem}" for problem in error.problems]) from error


def _number(written: str) -> float | str:
    """A plain number as such; other text as it is."""
    try:
        return float(written)
    except ValueError:
        return written


def _example(figure: Figure) -> str:
    """How a figure is bounded."""
    if figure.words:
        return f"=={figure.words[0]}"
    if figure.unit == "share":
        return ">=0.35"
    dimension = DIMENSIONS[figure.unit]
    return f"{'>=' if figure.unit.endswith('/s') else '<='}{dimension.example}"
