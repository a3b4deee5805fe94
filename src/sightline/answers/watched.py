"""Watched jobs: the list of them, and one with its steps, its prediction and what it departed from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Any

from sightline.answers import outline as out
from sightline.answers import units
from sightline.answers.runs import HOW_TO_WATCH, age, columns_of, label_of, seconds_between
from sightline.watching import WatchRecord
from sightline.watching.screen import gap, summary

_SILENT = 20.0
"""How many times the seconds between two lines a running job says nothing before the page says so."""
_LEAST_SILENT_S = 30.0


def watches_outline(records: Sequence[WatchRecord], place: str, address: Callable[[str], str]) -> out.Outline:
    """Return the list of watched jobs, newest first; where there is none, how to watch one.

    Args:
        records: The watches, oldest first.
        place: Of the store.
        address: Returns the address that opens a watch by its id.
    """
    if not records:
        none = f"The run store '{place}' has no watched jobs yet. Watch a job from its program:"
        return out.Outline(parts=[out.Steps(steps=[out.Step(none, HOW_TO_WATCH)])])
    newest = list(reversed(records))
    columns = columns_of([one.run for one in newest])
    kept = {heading: columns[heading] for heading in ("age", "model", "status")}
    kept["status"] = [f"{status}{_gap(one)}" for one, status in zip(newest, kept["status"], strict=True)]
    rows = [
        (out.Link(label_of(one.run), address(one.id)), *cells, _seen(one))
        for one, *cells in zip(newest, *kept.values(), strict=True)
    ]
    return out.Outline(parts=[out.Rows(headings=("job", *kept, "last seen"), rows=rows, numbers=False)])


def watch_outline(one: WatchRecord, links: Sequence[out.Link] = (), now: datetime | None = None) -> out.Outline:
    """Return one watched job: how it is, its chart, and what was said of it, newest first.

    Args:
        one: The watch with all its lines.
        links: What leads on from it.
        now: When it is looked at.
    """
    predicted = one.about.get("predicted") or {}
    said = summary(one.last) if one.last else "no step yet"
    return out.Outline(
        title=label_of(one.run),
        said=list(_short_answer(one, predicted, now or datetime.now(UTC))),
        parts=[
            out.Links(links=links),
            out.Charts(answer=one, label=f"step time by step: {said}", start="watched", function=_CHART),
            out.Section(title="Events", parts=[part for e in reversed(one.events) for part in _event(e)]),
        ],
    )


_CHART = "sightline.charts.watched_steps:record_chart"


def _short_answer(one: WatchRecord, predicted: Mapping[str, Any], now: datetime) -> Iterator[out.Said]:
    low, high = (predicted.get("interval") or {}).get("step_time_s", (0.0, inf))
    is_inside = low <= one.last.get("step_time_s", low) <= high
    is_well = one.is_running or one.run.status == "ok"
    kind = out.BAD if not is_well else out.GOOD if is_inside else out.PERHAPS
    yield out.Said(asks="job", says=f"{_state(one, now)}{_gap(one)}", kind=kind)
    if not one.last:
        return
    yield out.Said(asks="how fast", says=_seen(one))
    if one.last.get("gap") is not None and predicted:
        told = f"{units.seconds(predicted['step_time_s'])} (80 %: {units.span(low, high)})"
        yield out.Said(asks="predicted", says=told, kind=out.GOOD if is_inside else out.PERHAPS)


def _gap(one: WatchRecord) -> str:
    """How far its last steps are from the prediction, after a comma; empty without one."""
    return "" if one.last.get("gap") is None else f", {gap(one.last['gap'])}"


def _seen(one: WatchRecord) -> str:
    """What its last steps were, but for how far they are from the prediction."""
    return summary({**one.last, "gap": None}, " · ") if one.last else "no step yet"


def _state(one: WatchRecord, now: datetime) -> str:
    """Whether it runs, for how long, and since when a job that should run says nothing."""
    if not one.is_running:
        return f"{one.run.status.replace('_', ' ')}{f': {one.run.reason}' if one.run.reason else ''}"
    ran_s = seconds_between(one.run.created, str(now))
    if ran_s is None:
        return "running"
    quiet_s = ran_s - float(one.last.get("elapsed_s", 0.0))
    patience_s = max(_LEAST_SILENT_S, _SILENT * float(one.about.get("every_s") or 1.0))
    silent = f", silent for {units.seconds(quiet_s)}" if quiet_s > patience_s else ""
    return f"running for {age(one.run, now)}{silent}"


def _event(event: Mapping[str, Any]) -> Iterator[out.Part]:
    kind = {"departure": out.PERHAPS, "note": out.FAINT}.get(str(event.get("kind")), "")
    command = str(event.get("command") or "")
    said = str(event.get("sentence", "")).replace(f"; see `{command}`", "")
    yield out.Lines(lines=[f"step {event['step']:,}: {said}" if event.get("step") else said], kind=kind)
    yield out.Steps(steps=[out.Step("", command)] if command else [])
