"""A study of hardware or technology: built in, by its name, or one of one's own."""

from collections.abc import Mapping
from typing import Any, Final

from sightline.errors import InputError, nearest
from sightline.progress import Progress
from sightline.quantities import show
from sightline.web.work import checked, found

OPTIONS: Final = ("quick", "view")
"""Options of ``sightline explore`` that a request may give."""


def work(mapping: Mapping[str, Any], options: Mapping[str, Any], progress: Progress) -> Mapping[str, Any]:
    """Return what the study finds; ``mapping`` is a study, or of a built-in one ``{study: NAME}`` and ``set``."""
    from sightline.exploration.explore import explore
    from sightline.exploration.results import answer_to_dict
    from sightline.loading.input.no_files import without_files
    from sightline.report.pages.study import study_piece

    given = checked("explore", options, OPTIONS)
    source, overrides = source_of(mapping)
    with without_files():
        answer = explore(source, **given, overrides=overrides, progress=progress)
        return found(answer_to_dict(answer), study_piece(answer))


def source_of(mapping: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """Return the name of a built-in study with its settings, or the study itself."""
    from sightline.exploration.listed import BUILT_IN

    if not mapping.keys() <= {"study", "set"}:
        return mapping, {}
    name, settings = mapping.get("study"), mapping.get("set") or {}
    if name not in BUILT_IN:
        raise InputError(f"study is {show(name)}; allowed: {', '.join(BUILT_IN)}{nearest(name, tuple(BUILT_IN))}")
    if not isinstance(settings, Mapping):
        raise InputError(f"set is {show(settings)}; allowed: a mapping of dotted keys and values")
    return name, settings
