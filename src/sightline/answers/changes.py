"""What to change: a line for each change that would help, and the sentences and commands behind them."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sightline.answers import outline as out
from sightline.answers import summary, units
from sightline.profile import Profile
from sightline.quantities import relative

if TYPE_CHECKING:
    from sightline.explanation.answer import Advice
    from sightline.planning.plan_answer import NearestPlan

Linking = Callable[["Advice"], str]
"""Returns the address that shows a change; empty for one that no address shows."""
NOTHING_HELPS = "No candidate change gains more than its uncertainty."
NOTHING_FITS = "No single change makes it fit."
_TITLE = "What to change"
_MOST = 3
"""Changes that a page shows."""
_NONE = "none"
"""Said of a change without a risk."""


def what_to_change(
    profile: Profile | None,
    advice: "Sequence[Advice]",
    nearest: "Sequence[NearestPlan]" = (),
    *,
    link: Linking | None = None,
    search: str = "",
    is_tried: bool = False,
) -> list[out.Part]:
    """Return a table of changes with effect, memory and risk, those that keep the numerics first; below it why.

    Args:
        profile: What is changed; None of a trace.
        advice: Changes that would help.
        nearest: Plans that would fit in place of one that does not.
        link: Gives the addresses that show changes.
        search: The address of a search of all plans.
        is_tried: Whether it is said where nothing helps.
    """
    is_unfit = profile is not None and profile.fits is False
    plans = [_advised(profile, one) for one in nearest] if profile is not None else []
    found = sorted([*advice, *plans], key=lambda one: _risk(one) != _NONE)[: _MOST if link else None]
    none = NOTHING_FITS if is_unfit else NOTHING_HELPS
    if not found and not search:
        return [out.Lines(title=_TITLE, lines=[none])] * is_tried
    rows: list[list[out.Cell]] = [_row(one, link) for one in found] or [[none]]
    # A search comes before a risk that would only save memory.
    rows.insert(0 if is_unfit and (not found or _risk(found[0]) != _NONE) else len(rows), [])
    rows = [row or [out.Link("Search all plans, about 2 s", search)] for row in rows if row or search]
    headings = ("change", "effect", "memory", "risk", "", "")[: max(map(len, rows))]
    rows = [[*row, *[""] * (len(headings) - len(row))] for row in rows]
    steps = [out.Step(one.sentence, one.command) for one in found]
    why = out.Section(
        title="Why, and what to type",
        parts=[out.Steps(steps=steps)] * bool(steps),
        is_folded=True,
        is_detail=not nearest,
    )
    needs = unfit_lines(profile)
    table = out.Rows(title="" if is_unfit else _TITLE, headings=headings, rows=rows, numbers=False)
    return [out.Section(parts=[needs, table, why], kind=out.BAD if needs.lines else "changes")]


def unfit_lines(profile: Profile | None) -> out.Lines:
    """Return how much memory a plan that does not fit needs; no line of one that fits."""
    if profile is None or profile.fits is not False:
        return out.Lines(lines=[], kind=out.BAD)
    return out.Lines(lines=[f"Does not fit: needs {summary.times_of_memory(profile)}."], kind=out.BAD)


def _advised(profile: Profile, one: "NearestPlan") -> "Advice":
    """A plan that fits as a change."""
    from sightline.answers.labels import setting
    from sightline.explanation.answer import Advice

    own_s, found = float(profile.whole_s or 0.0), one.plan.profile
    gain_s = own_s - float(found.whole_s or 0.0)
    return Advice(
        set=one.set,
        gain_s=gain_s,
        gain=gain_s / own_s if own_s else 0.0,
        sentence=f"{setting(one.set)}: {one.sentence}",
        command=one.command,
        memory_bytes=float(found.memory_bytes["total"]),
    )


def _risk(one: "Advice") -> str:
    if "changes_numerics" in one.risks:
        return "numerics: check quality"
    is_other = any(key.startswith("workload.") or key == "plan.adapter" for key in one.set)
    return "another workload" if is_other else _NONE


def _row(one: "Advice", link: Linking | None) -> list[out.Cell]:
    """A change with its effect, memory and risk; with an address what shows it, and what keeps it as the baseline."""
    from sightline.prediction.changes import said

    change, address = said(one.set) if one.set else one.sentence.partition(".")[0], link(one) if link else ""
    cells: list[out.Cell] = [
        change,
        relative(1.0 - one.gain) if abs(one.gain) > 1e-3 else "as fast",
        units.gib(one.memory_bytes) if one.memory_bytes else units.NOTHING,
        _risk(one),
    ]
    if address:
        pin = out.Link("Pin", address.partition("?")[2], f"Pin {change}", pins=True)
        cells += [out.Link("Try", address, f"Try {change}"), pin]
    return cells
