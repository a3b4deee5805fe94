"""Several profiles: the order in which they are shown, what tells them apart, and a table with a line for each."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sightline.answers import labels, summary, units
from sightline.answers.outline import BAD, FAINT, GOOD, Charts, Column, Lines, Outline, Part, Rows, Section
from sightline.answers.profile import profile_outline
from sightline.errors import InputError, nearest
from sightline.profile import TASKS, Profile

if TYPE_CHECKING:
    from sightline.explanation.answer import Advice
    from sightline.planning.plan_answer import NearestPlan

AS_ASKED = "asked"
"""The key that keeps the order of the question."""
_FASTEST = {"training": "tokens_per_s", "generation": "output_tokens_per_s", "serving": "goodput_requests_per_s"}
"""By task; operators, which do different things, stay in the order of the question."""
_PARTS = ("memory_bytes", "phases")


def ranked(profiles: Sequence[Profile], cells: Sequence[Mapping[str, Any]] = (), key: str = "") -> list[int]:
    """Return the positions of profiles in the order in which they are shown, task by task.

    Without a ``key``, those that fit come first and then the fastest. A ``key`` is one of the results, of which the
    better comes first among what fits, one that was swept (``cells``), or ``asked``.

    Raises:
        InputError: The key is none of them.
    """
    if key == AS_ASKED:
        return list(range(len(profiles)))
    found: list[int] = []
    swept = _swept(key, cells) if key else ""
    if key and not swept and not any(_has(profile, key) for profile in profiles):
        known = [*_keys(profiles), *dict.fromkeys(k for cell in cells for k in cell)]
        raise InputError(f"--sort is '{key}'; allowed: {', '.join((AS_ASKED, *known))}{nearest(key, known)}")
    for task in TASKS:
        own = [i for i, profile in enumerate(profiles) if profile.task is task]
        if swept:
            found += _in_order(own, [cells[i].get(swept) for i in own])
        elif by := key or _FASTEST.get(task.name, ""):
            found += sorted(own, key=lambda i: (profiles[i].fits is False, *_merit(profiles[i], by)))
        else:
            found += own
    return found


def _swept(key: str, cells: Sequence[Mapping[str, Any]]) -> str:
    """The swept key that is meant: as it stands, or by its last part."""
    keys = list(dict.fromkeys(k for cell in cells for k in cell))
    return key if key in keys else next((k for k in keys if k.rpartition(".")[2] == key), "")


def _keys(profiles: Sequence[Profile]) -> list[str]:
    """The results that profiles may be ordered by."""
    metrics = (key for p in profiles for key, metric in p.task.figures.items() if metric.unit != "word")
    parts = (f"{part}.{name}" for p in profiles for part in _PARTS for name in getattr(p, part))
    return list(dict.fromkeys((*metrics, *parts)))


def _has(profile: Profile, key: str) -> bool:
    part, _, name = key.partition(".")
    return key in profile.task.figures or (part in _PARTS and name in getattr(profile, part))


def _merit(profile: Profile, key: str) -> tuple[bool, float]:
    """What is smaller the better a profile is; unknown figures come last."""
    if not _has(profile, key):
        return True, 0.0
    metric = profile.task.figures.get(key)
    value = profile.figure(key)
    if not isinstance(value, int | float):
        return True, 0.0
    return False, -float(value) if metric and metric.better == "higher" else float(value)


def _in_order(positions: Sequence[int], values: Sequence[Any]) -> list[int]:
    """Positions by their values: numbers by size, anything else in the order in which it was typed."""
    first = {repr(value): position for position, value in reversed(list(zip(positions, values, strict=True)))}
    is_number = all(isinstance(value, int | float) for value in values)
    merits = [float(value) if is_number else first[repr(value)] for value in values]
    return [position for _, position in sorted(zip(merits, positions, strict=True))]


NAMED = ("scenario", "operator")
"""Headings of names."""


def told_apart(profiles: Sequence[Profile], cells: Sequence[Mapping[str, Any]] = ()) -> list[Column]:
    """Return a column for each key that was swept, and the scenario's name where names differ or nothing was swept.

    ``cells`` has the values of swept keys of every profile.
    """
    scenarios = [profile.scenario for profile in profiles]
    heading = NAMED[0] if profiles[0].phases else NAMED[1]
    keys = list(dict.fromkeys(key for cell in cells for key in cell))
    if not keys:
        return [Column(heading=heading, cells=labels.variant_labels(scenarios), is_number=False)]
    names = list(map(labels.title, scenarios))
    is_named = all(scenario.name for scenario in scenarios) and len({*names}) > 1
    swept = [_of_key(key, keys, [cell.get(key) for cell in cells]) for key in keys]
    return [*([Column(heading=heading, cells=names, is_number=False)] if is_named else []), *swept]


def _of_key(key: str, keys: Sequence[str], values: Sequence[Any]) -> Column:
    last = key.rpartition(".")[2]
    alone = [other.rpartition(".")[2] for other in keys].count(last) == 1
    return Column(
        heading=(last if alone else key.replace(".", " ")).replace("_", " "),
        cells=list(map(units.word, values)),
        is_number=all(map(units.is_number, values)),
    )


_SHARED = (*summary.WORDS, "usd_per_hour")
"""Columns that become a phrase above the table where all lines say the same."""
_OF_SERVING = (r"kv_use\.mean", "interval", "output_tokens_per_s", "cost_usd_per_million_tokens", r"latency_s\.p[\d.]+")
_LEAST = ("mfu", "bottleneck", "bytes_per_s", "latency_s", "tokens_per_s", *_OF_SERVING)
"""Columns that a narrow terminal loses first, as regular expressions of their keys."""
_KINDS = {"yes": GOOD, "no": BAD}
_MOST_DETAILS = 24
"""Scenarios shown in full; with more the page would load slowly."""
_FEW = 6
"""Scenarios up to which the charts of each have a form for narrow screens."""
_MOST_LINES = 1_000
"""Scenarios in the table of figures; a page of more is too large."""
Cells = Sequence[Mapping[str, Any]]


def profiles_outline(
    profiles: Sequence[Profile],
    cells: Cells = (),
    *,
    order: Sequence[int] | None = None,
    changes: "Sequence[Advice]" = (),
    nearest: "Sequence[NearestPlan]" = (),
) -> Outline:
    """Return one profile in full, or several with a line each and each in full below.

    Args:
        profiles: Of any tasks.
        cells: Of each its values of the keys that were swept, as they were typed.
        order: Positions of those that are shown, in their order; all of them where it is None.
        changes: What would help the only one most, best first.
        nearest: What would fit in place of the only one.
    """
    if len(profiles) == 1:
        return profile_outline(profiles[0], changes=changes, nearest=nearest)
    positions = range(len(profiles)) if order is None else order
    names = ", ".join(labels.variant_labels([p.scenario for p in profiles])[:8])
    tables = list(_tables(profiles, cells, positions))
    return Outline(
        title=_title(profiles, cells),
        parts=[
            Charts(answer=list(profiles), label=f"{len(profiles):,} scenarios compared: {names}"),
            Section(title="Figures", parts=tables),
            Lines(lines=summary.anchor_sentences(profiles)),
            Section(title="Details", parts=lambda: list(_in_full(profiles)), is_long=True),
        ],
        warnings=list(dict.fromkeys(w for one in profiles for w in (*one.scenario.warnings, *one.warnings))),
    )


def swept_parts(profiles: Sequence[Profile], cells: Cells) -> "list[Part]":
    """Return the tables of a sweep, a line for each scenario."""
    return list(_tables(profiles, cells, range(len(profiles))))


def _title(profiles: Sequence[Profile], cells: Cells) -> str:
    scenarios = [profile.scenario for profile in profiles]
    if any(cells) and len({profile.task for profile in profiles}) == 1:
        varied = [column.heading for column in told_apart(profiles, cells) if column.heading not in NAMED]
        return labels.title_of_sweep(scenarios, varied)
    return labels.common_title(scenarios)


def _tables(profiles: Sequence[Profile], cells: Cells, order: Sequence[int]) -> Iterator[Part]:
    """For each task a phrase about all of its profiles, and a table."""
    for task in TASKS:
        own = [i for i in order if profiles[i].task is task]
        if not own:
            continue
        of_task = sum(profile.task is task for profile in profiles)
        chosen = own[:_MOST_LINES]
        shown = [profiles[i] for i in chosen]
        phrases, table = table_of(shown, [cells[i] for i in chosen] if cells else (), total=len(own))
        if of_task > len(own):
            phrases = [*phrases, f"first {len(own):,} of {of_task:,}"]
        yield Lines(lines=phrases, kind=FAINT)
        yield table


def table_of(profiles: Sequence[Profile], cells: Cells = (), *, total: int | None = None) -> tuple[list[str], Rows]:
    """Return a line per scenario of one task: what tells it apart, and its figures; what all share is a phrase."""
    columns = {one.key: one for one in summary.compared(profiles)}
    shared = [
        columns[key] for key in _SHARED if key in columns and len(profiles) > 1 and len({*columns[key].cells}) == 1
    ]
    names, figures = told_apart(profiles, cells), [one for one in columns.values() if one not in shared]
    # Whether a plan fits must not be what has no room.
    figures.sort(key=lambda one: one.key != "fits")
    phrase = " · ".join(_phrase(profiles, column) for column in shared)
    return [phrase] * bool(phrase), Rows.of_columns(
        [*names, *figures],
        total=total,
        most=50,
        labels=len(names),
        least=[one.heading for key in _LEAST for one in columns.values() if re.fullmatch(key, one.key)],
        kinds=_KINDS,
        strong=[at for at, is_best in enumerate(summary.best(profiles)) if is_best],
        faint=[at for at, one in enumerate(profiles) if one.fits is False],
    )


def _phrase(profiles: Sequence[Profile], column: Column) -> str:
    """What all cells of a column say."""
    said = column.cells[0]
    if column.key == "usd_per_hour":
        return f"{said} per hour"
    if column.key != "fits":
        return f"{column.heading} {said}" if column.key == "bottleneck" else f"{column.heading}: {said}"
    usable = {units.gib(float(profile.usable_bytes)) for profile in profiles}
    where = f" in {usable.pop()}" if len(usable) == 1 else ""
    return {"yes": "all fit", "no": "none fits"}.get(said, "all are tight") + where


def _in_full(profiles: Sequence[Profile]) -> Iterator[Part]:
    names = labels.variant_labels([profile.scenario for profile in profiles])
    for at, (name, profile) in enumerate(list(zip(names, profiles, strict=True))[:_MOST_DETAILS]):
        full = profile_outline(profile, start=f"chart{at}", most_charts=2, is_narrow=len(profiles) <= _FEW)
        yield Section(title=name, parts=[full], is_folded=True)
    left = len(profiles) - _MOST_DETAILS
    more = f"{left:,} more not shown in detail; run them separately, or use --json."
    yield Lines(lines=[more] if left > 0 else [], kind=FAINT)
