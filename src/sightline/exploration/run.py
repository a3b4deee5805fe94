"""Run a study: a built-in one by its name, or one's own from its file."""

from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from sightline import catalog
from sightline.errors import InputError, nearest
from sightline.exploration import BUILT_IN
from sightline.exploration.base import StudyRequest, Views
from sightline.exploration.study_answer import StudyAnswer
from sightline.loading.loader import Overrides, read_overrides
from sightline.progress import SILENT, Cancelled, Progress, watched
from sightline.quantities import show

if TYPE_CHECKING:
    from collections.abc import Callable

QUICK = "quick: a coarser grid; conclusions may differ"
"""What an answer of a small version says."""
FILE_ENDINGS = (".yaml", ".yml", ".json")
"""What names of study files end in."""


@watched
def explore(
    source: object,
    *,
    quick: bool = False,
    view: str | None = None,
    overrides: Overrides = (),
    progress: Progress = SILENT,
) -> StudyAnswer:
    """Return the answer of a study: its table, what the table comes to, and what was assumed.

    Args:
        source: The name of a built-in study (`BUILT_IN`), or a study of one's own: a path, ``-`` for standard input, a
            text of YAML or JSON, or a mapping.
        quick: Answer a small version of the study; of one's own, ranges have fewer values and lists all of theirs.
        view: How devices are seen: ideal (fixed shares of peak and bandwidth, no launches), calibrated (as kernels
            reach them today) or both; default: the study's own.
        overrides: Values by dotted key of the study's base scenario, as ``--set`` takes them.
        progress: Told how far the study is. When it is cancelled, studies of one's own, budgets, dram and
            memory-footprint return the points until then.

    Raises:
        InputError: every mistake in the request.
        Cancelled: another study was cancelled, or one of those before its first point.
    """
    request = StudyRequest(quick=quick, view=read_view(view), overrides=read_overrides(overrides), progress=progress)
    if isinstance(source, str) and is_name(source):
        answer = _built_in(source)(request)
        return said_to_be_quick(answer) if quick else answer
    from sightline.exploration.own.study import own_study

    return own_study(source, request)


def check(
    source: object, *, most: int, quick: bool = False, view: str | None = None, overrides: Overrides = ()
) -> None:
    """Raise `InputError` with the mistakes that show in a second, before a study is run.

    Args:
        source: As `explore` takes it.
        most: Points that a study of one's own may have.
        quick: As `explore` takes it.
        view: As `explore` takes it.
        overrides: As `explore` takes them.
    """
    request = StudyRequest(quick=quick, view=read_view(view), overrides=read_overrides(overrides))
    if isinstance(source, str) and is_name(source):
        with suppress(Cancelled):
            _built_in(source)(replace(request, quick=True, progress=_FirstPoint()))
        return
    from sightline.exploration.own.study import check_study

    check_study(source, request, most)


class _FirstPoint(Progress):
    """Stops a study at its first point, by which all that was set has been read."""

    def advance(self, count: int = 1) -> None:
        """Stop."""
        super().advance(count)
        self.cancel()


def said_to_be_quick(answer: StudyAnswer) -> StudyAnswer:
    """Return the answer, which says that it is one of a small version."""
    return replace(answer, warnings=(*answer.warnings, QUICK), assumptions=(*answer.assumptions, f"{QUICK}."))


def read_view(value: object) -> Views | None:
    """Return the view that a word names, None for none."""
    views = get_args(Views)
    if value is not None and value not in views:
        raise InputError(f"view is {show(value)}; allowed: {', '.join(views)}{nearest(value, views)}")
    return cast("Views | None", value)


def is_name(source: str) -> bool:
    """Whether a source can only be meant as the name of a built-in study."""
    is_text = "\n" in source or source.lstrip()[:1] in ("", "{") or source == "-"
    return source in BUILT_IN or not (is_text or source.lower().endswith(FILE_ENDINGS) or Path(source).exists())


def _built_in(name: str) -> "Callable[[StudyRequest], StudyAnswer]":
    """The function that answers a built-in study."""
    if kind := next((kind for kind in ("memories", "nodes", "links") if name in catalog.names(kind)), ""):
        raise InputError(f"{name} is one of the {kind}; vary cluster.device.technology in a study file")
    if name not in BUILT_IN:
        raise InputError(
            f"study is {show(name)}; allowed: {', '.join(BUILT_IN)}, or a file such as study.yaml"
            f"{nearest(name, tuple(BUILT_IN))}"
        )
    module = import_module(f"sightline.exploration.studies.{name.replace('-', '_')}")
    study: Callable[[StudyRequest], StudyAnswer] = module.study
    return study
