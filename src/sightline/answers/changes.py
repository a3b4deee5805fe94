"""What to change: a line for each change that would help, and the sentences and commands behind them."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sightline.answers import labels, units
from sightline.answers import outline as out
from sightline.profile import SERVING, Profile
from sightline.quantities import relative

if TYPE_CHECKING:
    from sightline.explanation.answer import Advice
    from sightline.planning.plan_answer import NearestPlan

Linking = Callable[["Advice"], str]
"""Returns the address that shows a change; empty for one that no address shows."""
NOTHING_HELPS = "No candidate change gains more than its uncertainty."
NOTHING_FITS = "No single change makes it fit."
_NUMERICS = "changes_numerics"


class _Row(NamedTuple):
    """A change in one line."""

    change: str
    effect: str
    memory: str
    risk: str
    address: str = ""


def what_to_change(
    profile: Profile | None,
    advice: "Sequence[Advice]",
    nearest: "Sequence[NearestPlan]" = (),
    *,
    link: Linking | None = None,
    search: str = "",
) -> list[out.Part]:
    """Return a table of changes with effect, memory and risk, those that keep the numerics first; below it why.

    Args:
        profile: What is changed; None of a trace.
        advice: Changes that would help.
        nearest: Plans that would fit in place of one that does not.
        link: Gives the addresses that show changes.
        search: The address of a search of all plans.
    """
    ranked = sorted(advice, key=lambda one: _NUMERICS in one.risks)
    rows = [*(_of_advice(profile, one, link) for one in ranked), *(_of_plan(profile, one) for one in nearest)]
    is_unfit = profile is not None and profile.fits is False
    last = [out.Link("Search all plans, about 2 s", search)] * bool(search)
    if not rows and not last:
        return []
    linked = any(row.address for row in rows)
    cells: list[list[out.Cell]] = [[*row[:4], *(_links(row) if linked else ())] for row in rows]
    # A search comes before a change of the numerics that would only save memory.
    at = 0 if is_unfit and (not ranked or _NUMERICS in ranked[0].risks) else len(cells)
    cells[at:at] = [[one, *[""] * (5 if linked else 3)] for one in last]
    steps = [
        *(out.Step(one.sentence, one.command) for one in ranked),
        *(out.Step(f"{labels.setting(one.set)}: {one.sentence}", one.command) for one in nearest),
    ]
    parts: list[out.Part] = [
        out.Lines(lines=[] if rows else [none_of(profile)]),
        out.Rows(
            title="" if is_unfit else "What to change",
            headings=("change", "effect", "memory", "risk", *("", "") * linked),
            rows=cells,
            numbers=False,
        ),
        out.Section(title="Why, and what to type", parts=[out.Steps(steps=steps)], is_folded=True, is_detail=True),
    ]
    if is_unfit and profile is not None:
        from sightline.answers.profile import times_of_memory

        needs = f"Does not fit: needs {times_of_memory(profile)}."
        return [out.Section(parts=[out.Lines(lines=[needs], kind=out.BAD), *parts], kind=out.BAD)]
    return [out.Section(parts=parts, kind="changes")]


def none_of(profile: Profile | None) -> str:
    """Return the sentence that stands in place of changes."""
    return NOTHING_FITS if profile is not None and profile.fits is False else NOTHING_HELPS


def _of_advice(profile: Profile | None, one: "Advice", link: Linking | None) -> _Row:
    from sightline.prediction.changes import said

    effect = "" if profile is not None and not profile.whole_s else _effect(1.0 - one.gain)
    return _Row(
        said(one.set) if one.set else one.sentence.partition(".")[0],
        effect,
        _memory(profile, one.memory_bytes),
        _risk(one),
        link(one) if link else "",
    )


def _of_plan(profile: Profile | None, one: "NearestPlan") -> _Row:
    found = one.plan.profile
    own_s = 0.0 if profile is None else float(profile.whole_s or 0.0)
    effect = _effect(float(found.whole_s) / own_s) if own_s else ""
    return _Row(labels.setting(one.set), effect, _memory(found, float(found.memory_bytes["total"])), "none")


def _effect(ratio: float) -> str:
    return "as fast" if abs(ratio - 1.0) < 1e-3 else relative(ratio)


def _memory(profile: Profile | None, needed: float | None) -> str:
    if profile is None or not needed or profile.task is SERVING:
        return units.NOTHING
    return f"{units.gib(needed).removesuffix(' GiB')} of {units.gib(float(profile.usable_bytes))}"


def _risk(one: "Advice") -> str:
    if _NUMERICS in one.risks:
        return "numerics: check quality"
    return "other samples" if any(key.startswith("workload.") for key in one.set) else "none"


def _links(row: _Row) -> Iterator[out.Cell]:
    """What shows the change, and what keeps it as the baseline."""
    if not row.address:
        yield from ("", "")
        return
    yield out.Link("Try", row.address, f"Try {row.change}")
    yield out.Link("Pin", row.address.partition("?")[2], f"Pin {row.change}", pins=True)
