"""What a word of a request names: a file, perhaps one of several things in it, or a stored run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from sightline.errors import InputError, nearest
from sightline.profile import TASKS
from sightline.profile.results import figure_of
from sightline.runs import Store
from sightline.runs.store import LATEST

ENDINGS = (".yaml", ".yml", ".json", ".csv")
"""Of files of scenarios and results."""
_One = TypeVar("_One")


def file_of(
    name: str, store: Store, *, words: Sequence[str] = (LATEST,), is_path: bool = False
) -> tuple[Path, int | None] | None:
    """Return the file that a name stands for, and which of its results is meant; None for the name of a run.

    Args:
        name: As it was typed; ``results.json#2`` is the second of a file.
        store: Where runs are looked for.
        words: What else may be said, to which a misspelled name may be near.
        is_path: The name can only be a file's.

    Raises:
        InputError: It looks like a file that is not there, or like one of the words.
    """
    path, number = numbered(name)
    if path.is_file():
        return path, number
    if is_path or "/" in name or path.suffix.lower() in (*ENDINGS, ".gz"):
        raise InputError(f"there is no file '{path}'{nearest(path.name, _files_beside(path))}")
    if name != LATEST and (near := nearest(name, words)):
        raise InputError(f"no run '{name}' in '{store.place}'{near}")
    return None


def numbered(name: str) -> tuple[Path, int | None]:
    """Return a path and, after #, which of the file's results is meant; None where none is named."""
    path, _, number = name.rpartition("#")
    return (Path(path), int(number)) if path and number.isdigit() else (Path(name), None)


def _files_beside(path: Path) -> list[str]:
    folder = path.parent
    return [each.name for each in folder.iterdir() if each.suffix in ENDINGS] if folder.is_dir() else []


def chosen(found: Sequence[_One], number: int | None, name: str, verb: str = "compare") -> _One:
    """Return the one of several things of a file that is meant, counted from 1.

    Raises:
        InputError: There are several and no number says which, or none of that number.
    """
    if number is None and len(found) > 1:
        raise InputError(f"'{name}' holds {len(found)}; {verb} takes one of them, such as {name}#1")
    if number is not None and not 1 <= number <= len(found):
        raise InputError(f"there is no '{name}': the file holds {len(found)}")
    return found[(number or 1) - 1]


def is_answer(mapping: Any) -> bool:
    """Return whether a mapping is a result, or a run as ``sightline runs export`` and ``show`` write it."""
    return isinstance(mapping, Mapping) and (is_run(mapping) or _is_result(mapping))


def is_run(mapping: Mapping[str, Any]) -> bool:
    """Return whether a mapping is a run as ``sightline runs export`` and ``show`` write it."""
    return isinstance(mapping.get("result"), Mapping) and {"id", "scenario"} <= mapping.keys()


def _is_result(mapping: Mapping[str, Any]) -> bool:
    return mapping.get("source") in ("predicted", "measured") and (
        "completed" in mapping or any(figure_of(mapping, kind.whole) is not None for kind in TASKS)
    )
