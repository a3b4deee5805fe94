"""The report of a stored run: what it measured, on which machine, and what it was asked."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from sightline.profile.results import flatten
from sightline.report import pieces, units
from sightline.report.document import document
from sightline.report.pages.profile import profile_piece
from sightline.report.pieces import BAD, FAINT, GOOD, Link, Piece, Said
from sightline.runs import Run, Store
from sightline.runs.store import RUNNING

if TYPE_CHECKING:
    from sightline.profile import Profile

_MOST_OPERATORS = 1_000
"""Of a suite; more make the page too large."""


def run_page(run: Run, store: Store, *, command: str = "") -> str:
    """Return the report of a stored run as one page; ``command`` asked for it."""
    return document(run.name, run_piece(run, store), command=command)


def run_piece(run: Run, store: Store, *, level: int = 1, links: Iterable[Link] = ()) -> Piece:
    """Return what stands on the page of a run; ``level`` is that of its name, ``links`` lead on from it."""
    import yaml

    from sightline.report.terminal.stored import profile_of_run

    profile: Profile | None = profile_of_run(run, store.rows(run))
    scenario = yaml.safe_dump(dict(run.scenario), sort_keys=False, allow_unicode=True, width=100)
    return pieces.joined(
        pieces.headline(run.name, level),
        pieces.paragraphs([f"run {run.id}, sightline {run.version}"], FAINT),
        pieces.short_answer(_short_answer(run)),
        pieces.buttons(links),
        profile_piece(profile, "chart", charts=8) if profile is not None else _results(run),
        pieces.section("Machine", _flat(run.environment, "environment")),
        pieces.folded("End of its output", pieces.text(run.output, "output")) if run.output else "",
        pieces.folded("Scenario", pieces.text(scenario, "scenario")) if profile is None and run.scenario else "",
    )


def _short_answer(run: Run) -> Iterator[Said]:
    kind = {"ok": GOOD, RUNNING: ""}.get(run.status, BAD)
    yield Said(asks="outcome", says=": ".join(filter(None, (run.status.replace("_", " "), run.reason))), kind=kind)


def _results(run: Run) -> Piece:
    """The result of a run that is no profile: of a suite its operators, else its figures."""
    several = run.result.get("results")
    if not isinstance(several, list):
        return pieces.section("Result", _flat(run.result, "result"))
    rows = [
        (str(one["scenario"].get("name") or one["scenario"]["workload"]["operator"]), _seconds(one.get("time_s")))
        for one in several[:_MOST_OPERATORS]
    ]
    return pieces.section("Operators", pieces.table(("operator", "time"), rows, label="operators"))


def _seconds(value: Any) -> str:
    return "-" if value is None else units.seconds(float(value))


def _flat(mapping: Any, label: str) -> str:
    """A line for each key of a mapping."""
    found = [(key, _plain(value)) for key, value in flatten(mapping).items() if value not in (None, "", [])]
    return pieces.table(("key", "value"), found, label=label, numbers=False) if found else ""


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(_plain, value)) if isinstance(value, list | tuple) else str(value)
