"""The ledger of findings: what each source says and by which range of a number it counts as reproduced."""

import re
from collections.abc import Mapping
from typing import Any

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.quantities import show
from sightline.reproduction.outcome import Finding

_KEYS = ("finding", "expected", "criterion", "low", "high", "is_strict", "interpreted_as", "explained")
_TEXTS: Mapping[str, Any] = {"finding": str, "expected": str | int | float, "criterion": str}
_ID = re.compile(r"[A-Z]\d+")


def read(source: str) -> dict[str, Finding]:
    """Return the findings of a source by their ids, in the ledger's order.

    Raises:
        InputError: The ledger was edited so that it says nothing that can be judged.
    """
    return findings_of(catalog.entry("findings", source).get("findings"), f"findings/{source}.yaml")


def findings_of(stated: object, where: str) -> dict[str, Finding]:
    """Return findings as a mapping states them; ``where`` it stands is named in complaints."""
    if not isinstance(stated, Mapping) or not stated:
        raise InputError(f"{where}: findings is {show(stated)}; allowed: a mapping of ids such as A1 to findings")
    findings = {str(id_): _finding(str(id_), one, where) for id_, one in stated.items()}
    for id_, one in findings.items():
        free = [other for other, of in findings.items() if other != id_ and not of.interpreted_as]
        if one.interpreted_as and one.interpreted_as not in free:
            raise InputError(
                f"{where}: {id_}.interpreted_as is {show(one.interpreted_as)}; allowed: another finding without it"
                f"{nearest(one.interpreted_as, free)}"
            )
    return findings


def _finding(id_: str, stated: object, where: str) -> Finding:
    if not _ID.fullmatch(id_):
        raise InputError(f"{where}: a finding is called {show(id_)}; allowed: a letter and a number, such as A1")
    if not isinstance(stated, Mapping):
        raise InputError(f"{where}: {id_} is {show(stated)}; allowed: a mapping of {', '.join(_KEYS)}")
    for key in stated:
        if key not in _KEYS:
            raise InputError(f"{where}: {id_} has {show(key)}; allowed: {', '.join(_KEYS)}{nearest(key, _KEYS)}")
    for key, allowed in _TEXTS.items():
        if not isinstance(stated.get(key), allowed) or isinstance(stated[key], bool):
            raise InputError(f"{where}: {id_}.{key} is {show(stated.get(key))}; allowed: a text")
    low, high = (_end(id_, key, stated.get(key), where) for key in ("low", "high"))
    if low is None and high is None:
        raise InputError(f"{where}: {id_} has neither low nor high; a criterion needs one of them")
    if low is not None and high is not None and low > high:
        raise InputError(f"{where}: {id_}.low is {low:g}; allowed: at most its high, {high:g}")
    strict: Any = stated.get("is_strict", False)
    if not isinstance(strict, bool):
        raise InputError(f"{where}: {id_}.is_strict is {show(strict)}; allowed: true, false")
    return Finding(
        id=id_,
        finding=stated["finding"],
        expected=stated["expected"],
        criterion=stated["criterion"],
        low=low,
        high=high,
        is_strict=strict,
        interpreted_as=str(stated.get("interpreted_as", "")),
        explained=str(stated.get("explained", "")),
    )


def _end(id_: str, key: str, value: object, where: str) -> float | None:
    """An end of a finding's range; None where it is open."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 (NaN)
        raise InputError(f"{where}: {id_}.{key} is {show(value)}; allowed: a number, or null for an open end")
    return float(value)
