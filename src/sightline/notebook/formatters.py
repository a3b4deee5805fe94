"""Which types a shell of IPython shows richly: by name, so that none is imported before an object is shown."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sightline.on_demand import named
from sightline.progress import watch_by

TYPES = {
    "sightline.scenario.training:Scenario": "scenarios:scenario_outline",
    "sightline.scenario.generation:GenerationScenario": "scenarios:scenario_outline",
    "sightline.scenario.serving:ServingScenario": "scenarios:scenario_outline",
    "sightline.scenario.operation:OperatorScenario": "scenarios:scenario_outline",
    "sightline.profile.profile:Profile": "answers:profile",
    "sightline.simulation.capacity:Capacity": "answers:capacity",
    "sightline.planning.answer:PlanAnswer": "answers:plans",
    "sightline.exploration.answer:StudyAnswer": "answers:study",
    "sightline.explanation.comparison:Comparison": "answers:comparison",
    "sightline.explanation.answer:Explanation": "answers:explanation",
    "sightline.prediction.sensitivity:Sensitivity": "answers:sensitivity",
    "sightline.prediction.roofline_table:RooflineTable": "answers:roofline",
    "sightline.validation.suite:Result": "answers:validated",
    "sightline.runs.store:Run": "answers:run",
    "sightline.requirements.check:Checked": "answers:required",
    "sightline.reproduction.answer:Reproduction": "answers:reproduced",
}
"""What outlines each type: a function of this package."""
SEVERAL = {
    "sightline.profile.profile:Profile": "answers:profiles",
    "sightline.validation.suite:Result": "answers:validation",
    "sightline.runs.store:Run": "answers:runs",
    "sightline.requirements.check:Checked": "answers:required_of_all",
    "sightline.validation.coverage_cells:Cell": "answers:covered",
}
"""The same of lists of one type."""
CHANNELS = ("ipython_display_formatter", "mimebundle_formatter")


def register(shell: Any) -> None:
    """Show answers in a shell of IPython: in a notebook with their charts, elsewhere as text or one table."""
    display = shell.display_formatter
    has_page = hasattr(shell, "kernel")
    for path, function in TYPES.items():
        module, _, name = path.partition(":")
        display.mimebundle_formatter.for_type_by_name(module, name, _bundle_by(function))
        if has_page:
            display.ipython_display_formatter.for_type_by_name(module, name, _display_by(function))
    display.mimebundle_formatter.for_type(list, _bundle_of_list)
    if has_page:
        from sightline.notebook.progress_line import progress_line

        watch_by(progress_line)


def unregister(shell: Any) -> None:
    """Undo ``register``."""
    for path in TYPES:
        module, _, name = path.partition(":")
        for channel in CHANNELS:
            formatter = getattr(shell.display_formatter, channel)
            formatter.deferred_printers.pop((module, name), None)
            # Once an object was shown, its type stands in place of the names.
            for kind in [kind for kind in formatter.type_printers if _path_of(kind) == path]:
                formatter.pop(kind)
    with suppress(KeyError):
        shell.display_formatter.mimebundle_formatter.pop(list)
    watch_by(None)


def _path_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__name__}"


def view_by(function: str, answer: Any) -> Any:
    """Return what a notebook shows of an answer, which a function of this package outlines."""
    return named("sightline.render.notebook:View")(named(f"sightline.notebook.{function}")(answer))


def _bundle_by(function: str) -> Callable[[Any], dict[str, Any]]:
    def bundle(answer: Any) -> dict[str, Any]:
        found: dict[str, Any] = view_by(function, answer).bundle()
        return found

    return bundle


def _display_by(function: str) -> Callable[[Any], None]:
    def display(answer: Any) -> None:
        view_by(function, answer).publish()

    return display


def _bundle_of_list(answers: list[Any]) -> dict[str, Any] | None:
    """A table of several answers of one type; other lists stay as they are."""
    kinds = {type(one) for one in answers[:1000]}
    function = SEVERAL.get(_path_of(kinds.pop())) if len(kinds) == 1 and len(answers) <= 1000 else None
    return None if function is None else _bundle_by(function)(answers)
