"""A trace of PyTorch's profiler that somebody sent, explained: where its step goes, and what to change first."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.progress import Progress
from sightline.web.work import checked, found

if TYPE_CHECKING:
    from sightline.explanation.answer import Explanation
    from sightline.render.html import Piece

OPTIONS = ("name",)
"""What the trace is called by who sent it; no file is looked for under it."""


def work(mapping: Mapping[str, Any], options: Mapping[str, Any], progress: Progress, sent: Path) -> Mapping[str, Any]:
    """Return what explains a trace; ``mapping`` may hold the ``scenario`` that it is of."""
    checked("trace", options, OPTIONS)
    name = str(options.get("name", "trace"))
    explanation = _explained(mapping.get("scenario"), progress, sent, name)
    return found(explanation.to_dict(), _shown(explanation, name, mapping.get("scenario")))


def _explained(scenario: Any, progress: Progress, sent: Path, name: str) -> "Explanation":
    from sightline.explanation.explain import explain
    from sightline.explanation.subject import is_trace

    if not is_trace(sent):
        raise InputError(f"'{name}' is no trace: torch.profiler writes one by export_chrome_trace")
    try:
        explanation = explain([str(sent)], scenario=_scenario(scenario), progress=progress)
    except InputError as error:
        raise InputError([problem.replace(str(sent), name) for problem in error.problems]) from None
    return replace(explanation, warnings=[warning.replace(str(sent), name) for warning in explanation.warnings])


def _scenario(stated: Any) -> Any:
    """The scenario that a trace is of, if any; no file that it names is opened."""
    from sightline.web.request import read

    if stated is None:
        return None
    scenarios = read([stated]).scenarios
    if len(scenarios) != 1:
        raise InputError(f"a trace is of one scenario; these are {len(scenarios)}")
    return scenarios[0]


def _shown(explanation: "Explanation", name: str, scenario: Any) -> "Piece":
    from sightline.answers.analyses import explained_outline
    from sightline.answers.labels import texts_of_scenario
    from sightline.render.html import outline_piece
    from sightline.web.request import with_change

    link = with_change(texts_of_scenario(scenario)) if scenario else None
    outline = replace(explained_outline(explanation, link=link), title=f"Trace {name}")
    return outline_piece(outline, title_level=2)
