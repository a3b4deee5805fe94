"""What the words of a request stand for: a run, a file of results or scenarios, a profile, ``predicted``."""

from pathlib import Path
from typing import Any, Protocol, TypeAlias

from sightline.errors import InputError, nearest
from sightline.explanation.reading import predicted, side_of_file, side_of_profile, side_of_result
from sightline.explanation.side import Side
from sightline.profile import Profile
from sightline.runs import Run
from sightline.runs.store import LATEST

PREDICTED = "predicted"
_ENDINGS = (".yaml", ".yml", ".json", ".csv")

Asked: TypeAlias = Profile | Run | str | Path
"""A profile, a run, the name of a run or file, or ``predicted``."""


class Store(Protocol):
    """Where runs lie (``sightline.runs.Store``)."""

    @property
    def place(self) -> str:
        """The folder or URL."""

    def find(self, asked: str) -> Run:
        """Return the run of this id, of an id that begins so, or ``latest``."""

    def rows(self, run: Run) -> Any:
        """Return a run's profile as a data frame."""


def sides_of(a: Asked, b: Asked, store: Store) -> tuple[Side, Side]:
    """Return both sides; ``predicted`` is the prediction of the other one's scenario.

    Raises:
        InputError: Some name stands for nothing, or for nothing that can be compared.
    """
    if _is_predicted(a) and _is_predicted(b):
        raise InputError("'predicted' is the prediction of the other side: name a run, a result or a scenario there")
    if _is_predicted(a):
        second = _side(b, store)
        return _predicted_side(second), second
    first = _side(a, store)
    return first, (_predicted_side(first) if _is_predicted(b) else _side(b, store))


def _is_predicted(asked: Asked) -> bool:
    return isinstance(asked, str) and asked == PREDICTED


def _predicted_side(side: Side) -> Side:
    if not side.scenario:
        raise InputError(f"'{side.name}' does not say which scenario it is of, so nothing can be predicted for it")
    return predicted(side.scenario, PREDICTED, f"'{side.name}'")


def _side(asked: Asked, store: Store) -> Side:
    if isinstance(asked, Run):
        return _side_of_run(asked, store)
    if not isinstance(asked, str | Path):
        return side_of_profile(asked)
    name = str(asked)
    path, number = _numbered(name)
    if path.is_file():
        return side_of_file(path, number, name)
    if isinstance(asked, Path) or "/" in name or path.suffix.lower() in _ENDINGS:
        raise InputError(f"there is no file '{path}'{nearest(path.name, _files_beside(path))}")
    if name != LATEST and (near := nearest(name, (PREDICTED, LATEST))):
        raise InputError(f"no run '{name}' in '{store.place}'{near}")
    return _side_of_run(store.find(name), store)


def _numbered(name: str) -> tuple[Path, int | None]:
    """A path and, after #, which of the file's results."""
    path, _, number = name.rpartition("#")
    return (Path(path), int(number)) if path and number.isdigit() else (Path(name), None)


def _files_beside(path: Path) -> list[str]:
    folder = path.parent
    return [each.name for each in folder.iterdir() if each.suffix in _ENDINGS] if folder.is_dir() else []


def _side_of_run(run: Run, store: Store) -> Side:
    if run.status != "ok":
        reason = f" ({run.reason})" if run.reason else ""
        raise InputError(
            f"run '{run.id}' is {run.status.replace('_', ' ')}{reason}; only what ended ok can be compared"
        )
    rows = store.rows(run).to_dicts()
    return side_of_result(run.result, run.id, scenario=run.scenario, rows=rows, environment=run.environment)
