"""Which types a shell of IPython shows richly: by name, so that none is imported before an object is shown."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sightline.on_demand import named
from sightline.progress import watch_by

TYPES = {
    "sightline.scenario.training:Scenario": "sightline.notebook.outlines:scenario_outline",
    "sightline.scenario.generation:GenerationScenario": "sightline.notebook.outlines:scenario_outline",
    "sightline.scenario.serving:ServingScenario": "sightline.notebook.outlines:scenario_outline",
    "sightline.scenario.operation:OperatorScenario": "sightline.notebook.outlines:scenario_outline",
    "sightline.profile.profile:Profile": "sightline.notebook.outlines:profile",
    "sightline.simulation.capacity:Capacity": "sightline.answers.loads:capacity_outline",
    "sightline.planning.plan_answer:PlanAnswer": "sightline.answers.best_plans:plan_outline",
    "sightline.exploration.answer:StudyAnswer": "sightline.answers.study:study_outline",
    "sightline.explanation.comparison:Comparison": "sightline.answers.comparison:comparison_outline",
    "sightline.explanation.answer:Explanation": "sightline.answers.analyses:explained_outline",
    "sightline.prediction.sensitivity:Sensitivity": "sightline.answers.analyses:sensitivity_outline",
    "sightline.prediction.roofline_table:RooflineTable": "sightline.notebook.outlines:roofline",
    "sightline.validation.suite:Result": "sightline.notebook.outlines:validated",
    "sightline.runs.store:Run": "sightline.answers.runs:stored_outline",
    "sightline.requirements.check:Checked": "sightline.notebook.outlines:required",
    "sightline.reproduction.answer:Reproduction": "sightline.answers.reproduction:reproduced_outline",
}
"""The function that outlines each type."""
SEVERAL = {
    "sightline.profile.profile:Profile": "sightline.answers.several:profiles_outline",
    "sightline.validation.suite:Result": "sightline.answers.validation:validation_outline",
    "sightline.runs.store:Run": "sightline.answers.runs:runs_outline",
    "sightline.requirements.check:Checked": "sightline.answers.requirements:requirements_outline",
    "sightline.validation.coverage_cells:Cell": "sightline.answers.validation:coverage_outline",
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
    """Return what a notebook shows of an answer, which a function outlines."""
    return named("sightline.render.notebook:View")(named(function)(answer))


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
