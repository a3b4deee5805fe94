"""The stored runs as a page: the list of them, and what to do where there are none yet."""

from collections.abc import Callable, Sequence

from sightline.report import pieces
from sightline.report.pieces import FAINT, Link, Piece
from sightline.report.runs import columns_of, label_of
from sightline.runs import Run

HOW_TO_WATCH = """\
import sightline as sl

with sl.watch("scenario.yaml") as watch:
    for batch in watch.inputs(loader):
        train(batch)
        watch.step()"""
_NEXT = (
    ("Measure a step of training, or of any other scenario, on this machine:", "sightline measure scenario.yaml"),
    ("Watch a job of training from its own program; it is kept as a run:", HOW_TO_WATCH),
    ("Read what another machine exported:", "sightline runs import runs.zip"),
)


def runs_piece(runs: Sequence[Run], count: int, place: str, address: Callable[[Run], str]) -> Piece:
    """Return the list of runs.

    Args:
        runs: Those that are shown, newest first.
        count: How many the store has.
        place: Of the store.
        address: Returns the address that opens a run.
    """
    if not runs:
        none = pieces.paragraphs([f"The store of runs '{place}' has no runs yet."])
        return pieces.joined(none, pieces.commands(_NEXT))
    columns = columns_of(runs)
    # On narrow screens the last column is the one out of sight.
    columns["run"] = columns.pop("run")
    names = [Link(label_of(run), address(run)) for run in runs]
    rows = list(zip(names, *columns.values(), strict=True))
    right = [heading == "age" for heading in ("name", *columns)]
    return pieces.joined(
        pieces.paragraphs([_said(len(runs), count, place)], FAINT),
        pieces.table(("name", *columns), rows, label="stored runs", numbers=right),
    )


def _said(shown: int, count: int, place: str) -> str:
    if shown < count:
        return f"The newest {shown:,} of {count:,} runs in {place}; `sightline runs list` has all."
    return f"{shown:,} {'run' if shown == 1 else 'runs'} in {place}, newest first."


def is_comparable(run: Run) -> bool:
    """Return whether a run has a result that can be compared and explained."""
    return run.status == "ok" and bool(run.result) and bool(run.scenario)
