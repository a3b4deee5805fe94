"""A study of hardware or technology: built in, by its name, or one of one's own."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from sightline.errors import InputError, nearest
from sightline.progress import Progress
from sightline.quantities import show
from sightline.web.work import checked, found

if TYPE_CHECKING:
    from sightline.render.html import Piece

OPTIONS: Final = ("quick", "view")
"""Options of ``sightline explore`` that a request may give."""
MOST_POINTS: Final = 100_000
"""Points of a study of one's own; a result of more is slow to read again."""


def work(mapping: Mapping[str, Any], options: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """Return what the study finds; ``mapping`` is a study, or of a built-in one ``{study: NAME}`` and ``set``."""
    from sightline.answers.study import study_outline
    from sightline.exploration.answer import study_to_dict
    from sightline.exploration.explore import explore
    from sightline.loading.sources import without_files
    from sightline.render import html
    from sightline.render.csv import study_to_csv

    given = checked("explore", options, OPTIONS)
    check(mapping, given)
    source, overrides = source_of(mapping)
    with without_files():
        answer = explore(source, **given, overrides=overrides, progress=progress)
        piece = html.section(answer.title, html.outline_piece(study_outline(answer), level=3), _again(mapping, given))
        return {**found(study_to_dict(answer), piece), "files": {"study.csv": study_to_csv(answer)}}


def check(mapping: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise `InputError` with the mistakes that are found before the study.

    Those of a built-in study's settings begin with ``set``, and those of what is varied with ``axes``.
    """
    from sightline.exploration.explore import check as check_study
    from sightline.exploration.explore import read_view
    from sightline.loading.sources import without_files

    read_view(options.get("view"))
    source, overrides = source_of(mapping)
    try:
        with without_files():
            check_study(source, most=MOST_POINTS, overrides=overrides, **options)
    except InputError as error:
        axes = {} if isinstance(source, str) else source.get("axes")
        raise InputError([_placed(problem, overrides, axes) for problem in error.problems]) from None


def _placed(problem: str, settings: Mapping[str, Any], axes: Any) -> str:
    """A sentence after the name of the field that its key stands in."""
    if settings:
        return f"set: {problem}"
    is_axis = isinstance(axes, Mapping) and problem.partition(" ")[0].rstrip(":") in axes
    return f"axes: {problem}" if is_axis else problem


def source_of(mapping: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """Return the name of a built-in study with its settings, or the study itself."""
    from sightline.exploration import BUILT_IN

    if not mapping.keys() <= {"study", "set"}:
        return mapping, {}
    name, settings = mapping.get("study"), mapping.get("set") or {}
    if name not in BUILT_IN:
        raise InputError(f"study is {show(name)}; allowed: {', '.join(BUILT_IN)}{nearest(name, tuple(BUILT_IN))}")
    if not isinstance(settings, Mapping):
        raise InputError(f"set is {show(settings)}; allowed: a mapping of dotted keys and values")
    return name, settings


def _again(mapping: Mapping[str, Any], options: Mapping[str, Any]) -> "Piece":
    """The same study for the command line: its command, and the file of one of one's own."""
    import yaml

    from sightline.loading.sources import as_options
    from sightline.render import html

    source, overrides = source_of(mapping)
    own = not isinstance(source, str)
    words = ["sightline explore", "study.yaml" if own else source]
    words += ["--quick"] if options.get("quick") else []
    words += ["--view", options["view"]] if "view" in options else []
    command = html.text(" ".join((*words, *as_options(overrides))), "command", file="explore.sh")
    file = yaml.safe_dump(dict(mapping), sort_keys=False, allow_unicode=True, width=100) if own else ""
    written = html.text(file, "study", file="study.yaml") if own else ""
    return html.folded("The same on the command line", command, written)
