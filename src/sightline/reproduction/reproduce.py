"""``reproduce``: the findings and tables of a source, predicted for its hardware and judged by the ledger."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.progress import SILENT, Cancelled, Progress, watched
from sightline.quantities import show
from sightline.reproduction.asking import Answer, Ask, Source
from sightline.reproduction.outcomes import ChoiceBySetting, Finding, Outcome, Reproduction
from sightline.runs import open_store

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


_Answer = TypeVar("_Answer")

SOURCES: Mapping[str, str] = {
    "2311.03687": "sightline.reproduction.arxiv_2311_03687.source",
    "2407.14645": "sightline.reproduction.arxiv_2407_14645",
    "talk": "sightline.reproduction.talk",
}
"""Names of sources and the modules that describe what reproduces them."""
SMALL = "small: fewer requests, sizes and points; verdicts may differ from the full reproduction"
_RANGE = re.compile(r"(?P<group>[a-z])(?P<first>\d+)\s*-\s*(?P=group)?(?P<last>\d+)")
"""Findings from one to another."""
STOPPED = "stopped before the end; remaining findings and tables are omitted"


@watched
def reproduce(
    source: str,
    *,
    only: Iterable[str] = (),
    measure: bool = False,
    small: bool = False,
    store: str | None = None,
    progress: Progress = SILENT,
) -> Reproduction:
    """Return a source's findings, each with our number and whether it meets its criterion, and the source's tables.

        answer = sl.reproduce("2311.03687", only=["A1", "A8"])
        answer.summary, [(one.finding.id, one.ours, one.reproduced) for one in answer.outcomes]

    Args:
        source: 2311.03687, 2407.14645 or talk.
        only: Ids of findings and of tables, or one, in any case; also several findings as A1-A5. Without any, all.
        measure: Also measure what the machine at hand can of the source's tables, each beside its prediction.
        small: Smaller loads and coarser studies: a minute's work; of what is measured one model and few steps.
        store: Where measured runs are kept; a run that was stopped goes on there.
        progress: Told of every finding and table; when it is cancelled, the answer holds those until then.

    Raises:
        InputError: Source or id is unknown, nothing of the source can be measured, or the ledger was edited so that it
            cannot be judged by.
    """
    described = source_of(source)
    findings = read(source)
    chosen = chosen_of(source, only)
    if measure and not described.measured:
        measurable = ", ".join(name for name in SOURCES if source_of(name).measured)
        raise InputError(f"{source} cannot be measured on this machine; allowed: {measurable}")
    ask = Ask(small=small, progress=progress)
    progress.begin(len(chosen.findings) + len(chosen.tables), "findings and tables")
    outcomes = [
        *_until_stopped(chosen.findings, lambda id_: _outcome(findings[id_], findings, described.findings, ask), ask)
    ]
    tables = [*_until_stopped(chosen.tables, lambda id_: described.tables[id_](ask), ask)]
    if measure and described.measured and not progress.cancelled:
        tables += described.measured(open_store(store), small=small, progress=progress)
    stated = catalog.entry("findings", source)
    return Reproduction(
        source=source,
        title=stated["title"],
        cited=stated["source"],
        outcomes=outcomes,
        tables=tables,
        assumptions=(*described.assumed((*chosen.findings, *chosen.tables)), *([f"{SMALL}."] if small else [])),
        is_part=len(outcomes) < len(findings),
        warnings=[STOPPED] * progress.cancelled,
    )


def source_of(name: str) -> Source:
    """Return what reproduces a source.

    Raises:
        InputError: There is no source of the name.
    """
    if name not in SOURCES:
        raise InputError(f"source is {show(name)}; allowed: {', '.join(SOURCES)}{nearest(name, tuple(SOURCES))}")
    described: Source = import_module(SOURCES[name]).SOURCE
    return described


@dataclass(frozen=True)
class Chosen:
    """What of a source is asked for, by ids in the source's order."""

    findings: Sequence[str]
    tables: Sequence[str]


def chosen_of(source: str, only: Iterable[str] = ()) -> Chosen:
    """Return the findings and tables that `reproduce` answers, without answering them.

    Raises:
        InputError: Source or id is unknown.
    """
    described, findings = source_of(source), read(source)
    named = [only] if isinstance(only, str) else list(only)
    asked = {id_ for one in named for id_ in _meant(one, findings, described)}
    chosen = Chosen(
        findings=[id_ for id_ in findings if id_ in asked or not asked],
        tables=[id_ for id_ in described.tables if id_ in asked or not asked],
    )
    for id_ in chosen.findings:
        if id_ not in described.findings:
            raise InputError(
                f"the ledger of findings has {id_}, which is not implemented; allowed: {_ids(findings, described)}"
            )
    return chosen


def _meant(named: str, findings: Mapping[str, Finding], described: Source) -> Sequence[str]:
    """The ids that are meant: one in any case, or the findings from one to another."""
    allowed = {id_.lower(): id_ for id_ in (*findings, *described.tables)}
    folded = str(named).lower()
    if folded in allowed:
        return [allowed[folded]]
    ends = _RANGE.fullmatch(folded)
    if ends is None:
        hint = nearest(named, tuple(allowed.values()))
        raise InputError(f"only is {show(named)}; allowed: {_ids(findings, described)}{hint}")
    group, first, last = ends["group"].upper(), int(ends["first"]), int(ends["last"])
    for end in (first, last):
        if f"{group}{end}" not in findings:
            raise InputError(
                f"only is {show(named)}, but no finding is {group}{end}; allowed: {_ids(findings, described)}"
            )
    if first > last:
        raise InputError(f"only is {show(named)}; allowed: the lower end first, {group}{last}-{group}{first}")
    return [id_ for id_, one in findings.items() if one.group == group and first <= one.number <= last]


def _ids(findings: Mapping[str, Finding], described: Source) -> str:
    """What may be asked for by itself, in words."""
    ids = sorted((id_ for id_ in findings if id_ in described.findings), key=lambda id_: findings[id_].number)
    return f"{ids[0]} to {ids[-1]}, {', '.join(described.tables)}"


def _outcome(finding: Finding, findings: Mapping[str, Finding], answers: Mapping[str, Answer], ask: Ask) -> Outcome:
    """What becomes of a finding; one that is interpreted as another takes the choices that the other is judged by."""
    given: ChoiceBySetting = {}
    if finding.interpreted_as:
        given = _outcome(findings[finding.interpreted_as], findings, answers, ask).judged.choices
    return Outcome(finding=finding, interpretations=answers[finding.id](ask), given=given)


def _until_stopped(ids: Sequence[str], answer: Callable[[str], _Answer], ask: Ask) -> Iterator[_Answer]:
    """The answers to ids one after the other, until somebody asks to stop."""
    for id_ in ids:
        try:
            ask.progress.check()
            yield answer(id_)
        except Cancelled:
            return
        ask.progress.advance()
