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
    ("Measure a training step, or any other scenario, on this machine:", "sightline measure scenario.yaml"),
    ("Watch a training job from its own program, and store it as a run:", HOW_TO_WATCH),
    ("Import runs from another machine:", "sightline runs import runs.zip"),
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
        none = pieces.paragraphs([f"The run store '{place}' has no runs yet."])
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
        return f"Showing the newest {shown:,} of {count:,} runs in {place}; list all with `sightline runs list`."
    return f"{shown:,} {'run' if shown == 1 else 'runs'} in {place}, newest first."


def is_comparable(run: Run) -> bool:
    """Return whether a run has a result that can be compared and explained."""
    return run.status == "ok" and bool(run.result) and bool(run.scenario)
