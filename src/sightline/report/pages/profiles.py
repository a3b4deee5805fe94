"""The report on one profile, or on several with a comparison first."""

from collections.abc import Mapping, Sequence
from typing import Any

from sightline.explanation.answer import Advice
from sightline.profile import Profile
from sightline.report import labels, pieces, summary
from sightline.report.document import document
from sightline.report.pages.charts import charts_piece
from sightline.report.pages.profile import profile_piece
from sightline.report.pieces import Piece
from sightline.report.swept import told_apart

_MOST_DETAILS = 24
"""Scenarios shown in full; with more the page would load slowly."""
_FEW = 6
"""Scenarios up to which the charts of each have a form for narrow screens."""
_MOST_LINES = 1_000
"""Scenarios in the table of figures; a page of more is too large."""
Cells = Sequence[Mapping[str, Any]]


def page(profiles: Sequence[Profile], cells: Cells = (), *, command: str = "", changes: Sequence[Advice] = ()) -> str:
    """Return the report on profiles.

    Args:
        profiles: One, or several of any tasks.
        cells: Of each its values of the keys that were swept, as they were typed.
        command: The command that asked for them, for the footer.
        changes: What would help the only one most, best first.
    """
    title = title_of(profiles)
    body = pieces.joined(pieces.headline(title), profiles_piece(profiles, cells, changes=changes))
    return document(title, body, command=command)


def title_of(profiles: Sequence[Profile]) -> str:
    """Return the title of a page on profiles."""
    if len(profiles) == 1:
        return labels.title(profiles[0].scenario)
    return f"{len(profiles):,} scenarios compared"


def profiles_piece(profiles: Sequence[Profile], cells: Cells = (), *, changes: Sequence[Advice] = ()) -> Piece:
    """Return what stands on the page of profiles below its title; for the arguments see `page`."""
    if len(profiles) == 1:
        return profile_piece(profiles[0], "chart", charts=8, changes=changes)
    named = list(zip(labels.variant_labels([p.scenario for p in profiles]), profiles, strict=True))
    left, few = len(profiles) - _MOST_DETAILS, len(profiles) <= _FEW
    more = f"{left:,} more not shown in detail; run them separately, or use --json." if left > 0 else ""
    return pieces.joined(
        _charts(profiles),
        pieces.section("Figures", *_tables(profiles, cells)),
        pieces.section(
            "Details",
            *(
                pieces.folded(label, profile_piece(profile, f"chart{position}", charts=2, narrow=few, level=3))
                for position, (label, profile) in enumerate(named[:_MOST_DETAILS])
            ),
            pieces.paragraphs(filter(None, [more]), pieces.FAINT),
        ),
    )


def _charts(profiles: Sequence[Profile]) -> Piece:
    """The charts of several profiles; those of different tasks have none in common."""
    said = ", ".join(labels.variant_labels([p.scenario for p in profiles])[:8])
    return charts_piece(list(profiles), f"{len(profiles):,} scenarios compared: {said}")


def _tables(profiles: Sequence[Profile], cells: Cells) -> list[str]:
    """A table with a line per scenario for each task."""
    found = []
    for task in dict.fromkeys(profile.task for profile in profiles):
        own = [i for i, profile in enumerate(profiles) if profile.task is task]
        shown = own[:_MOST_LINES]
        found.append(table_of([profiles[i] for i in shown], [cells[i] for i in shown] if cells else ()))
        if left := len(own) - len(shown):
            found.append(pieces.paragraphs([f"{left:,} more; use --csv or --json"], pieces.FAINT))
    return found


def table_of(profiles: Sequence[Profile], cells: Cells = ()) -> str:
    """Return a line per scenario of one task: what tells it apart, and its figures."""
    columns: list[Any] = [*told_apart(profiles, cells), *summary.compared(profiles)]
    lines = zip(*(column.cells for column in columns), strict=True)
    return pieces.table(tuple(column.heading for column in columns), list(lines), label="figures of each scenario")
