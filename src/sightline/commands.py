"""Commands and the kinds of answers that they give: command line, page, HTTP API, notebooks and docs are made of these.

Everything is named as ``package.module:name``, of commands without ``sightline``, and loaded when it is first used.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple


class Command(NamedTuple):
    """Where each face of a command is."""

    function: str = ""
    """Of the command line, or a group of commands; its parameters are the options. Empty where there is none."""
    question: str = ""
    """Which it answers: the help of the command line has the commands of one together."""
    view: str = ""
    """Of the page; the navigation has the order of this table."""
    at_once: str = ""
    """What answers a request to the HTTP API at once: a `sightline.web.views.Work` of scenarios."""
    work: str = ""
    """Long work that the page and the HTTP API start as a job: a `sightline.web.views.Work`."""
    is_in_api: bool = True
    """Whether the HTTP API has its work."""


FITS, BEST, SERVES = "Will it fit, how fast", "What is best", "How it serves"
MEASURED, IF, TRUST, START = "Measure and compare", "Explore", "Trust", "Start"
COMMANDS: Final[Mapping[str, Command]] = {
    "predict": Command(
        "cli.predictions:predict", FITS, "web.scenario_views:PREDICT", at_once="web.scenario_views:PREDICTED"
    ),
    "explain": Command("cli.analyses:explain", FITS, "web.explain_view:VIEW", at_once="web.explain_view:EXPLAINED"),
    "plan": Command("cli.searches:plan", BEST, "web.search_views:PLAN", work="web.search_views:PLAN_WORK"),
    "simulate": Command("cli.simulate:simulate", SERVES, "web.serve_view:VIEW", work="web.serve_view:WORK"),
    "explore": Command("cli.analyses:explore", IF, "web.search_views:EXPLORE", work="web.search_views:EXPLORE_WORK"),
    "measure": Command("cli.measure:measure", MEASURED),
    "runs": Command("cli.library:runs", MEASURED, "web.stored_views:RUNS"),
    "watch": Command(view="web.stored_views:WATCH"),
    "compare": Command("cli.predictions:compare", MEASURED, "web.scenario_views:COMPARE"),
    "check": Command("cli.predictions:check", FITS),
    "validate": Command(
        *("cli.accuracy:validate", TRUST, "web.evidence_views:VALIDATE"),
        work="web.evidence_views:VALIDATE_WORK",
        is_in_api=False,
    ),
    "catalog": Command("cli.library:catalog", TRUST, "web.stored_views:CATALOG"),
    "roofline": Command("cli.analyses:roofline", FITS),
    "sensitivity": Command("cli.analyses:sensitivity", FITS),
    "init": Command("cli.start:init", START),
    "examples": Command("cli.start:examples", START),
    "import": Command("cli.import_:import_", START),
    "reproduce": Command(
        *("cli.accuracy:reproduce", TRUST, "web.evidence_views:REPRODUCE"),
        work="web.evidence_views:REPRODUCE_WORK",
        is_in_api=False,
    ),
    "calibrate": Command("cli.calibrate:calibrate", MEASURED),
    "trace": Command(work="web.explain_view:TRACE_WORK", is_in_api=False),
    "ui": Command("cli.ui:ui", START),
}


class Answer(NamedTuple):
    """What each medium makes of a kind of answer: all lay out its outline."""

    type: str
    """Of the answer, or of each answer of a list: notebooks show objects of it. Empty for plain lists."""
    outline: str
    document: str = ""
    """Returns the JSON document."""
    csv: str = ""
    chart: str = ""
    without_chart: str = ""
    """Why there is no chart where ``chart`` returns None."""
    is_list: bool = False
    """Whether the outline, and the rest, are those of a list of answers."""
    single: str = ""
    """The outline of a single answer of a list, if it has its own."""


ANSWERS: Final[Mapping[str, Answer]] = {
    "profiles": Answer(
        "sightline.profile.profile:Profile",
        "sightline.answers.several:profiles_outline",
        csv="sightline.render.csv:to_csv",
        chart="sightline.charts.profile_charts:profile_chart",
        is_list=True,
        single="sightline.notebook.outlines:profile_outline",
    ),
    "plans": Answer(
        "sightline.planning.plan_answer:PlanAnswer",
        "sightline.answers.best_plans:plan_outline",
        csv="sightline.render.csv:plans_to_csv",
        chart="sightline.charts.plan_chart:plan_chart",
    ),
    "study": Answer(
        "sightline.exploration.study_answer:StudyAnswer",
        "sightline.answers.study:study_outline",
        "sightline.exploration.study_answer:study_to_dict",
        "sightline.render.csv:study_to_csv",
        "sightline.charts.study_charts:study_chart",
    ),
    "comparison": Answer(
        "sightline.explanation.comparison:Comparison",
        "sightline.answers.comparison:comparison_outline",
        "sightline.explanation.comparison:comparison_to_dict",
        "sightline.render.csv:comparison_to_csv",
        "sightline.charts.explanation_bars:comparison_bars",
    ),
    "explanation": Answer(
        "sightline.explanation.answer:Explanation",
        "sightline.answers.analyses:explained_outline",
        "sightline.explanation.answer:Explanation.to_dict",
        "sightline.render.csv:explained_to_csv",
        "sightline.charts.explanation_bars:explained_chart",
    ),
    "sensitivities": Answer(
        "sightline.prediction.sensitivity:Sensitivity",
        "sightline.answers.analyses:sensitivities_outline",
        chart="sightline.charts.study_charts:sensitivity_chart",
        without_chart="no input affects the result",
        is_list=True,
        single="sightline.answers.analyses:sensitivity_outline",
    ),
    "roofline": Answer(
        "sightline.prediction.roofline_table:RooflineTable",
        "sightline.answers.analyses:roofline_outline",
        csv="sightline.render.csv:rooflines_to_csv",
        chart="sightline.charts.rooflines:roofline_chart",
        single="sightline.notebook.outlines:table_outline",
    ),
    "validation": Answer(
        "sightline.validation.cases:Result",
        "sightline.answers.validation:validation_outline",
        chart="sightline.charts.accuracy:validation_chart",
        is_list=True,
    ),
    "coverage": Answer(
        "sightline.validation.coverage_cells:Cell",
        "sightline.answers.validation:coverage_outline",
        "sightline.validation.coverage:coverage_to_dict",
        "sightline.render.csv:coverage_to_csv",
        is_list=True,
    ),
    "decisions": Answer(
        "",
        "sightline.answers.decisions:decisions_outline",
        "sightline.validation.decisions:decisions_to_dict",
        "sightline.render.csv:decisions_to_csv",
        is_list=True,
    ),
    "requirements": Answer(
        "sightline.requirements.check:Checked", "sightline.answers.requirements:requirements_outline", is_list=True
    ),
    "reproduction": Answer(
        "sightline.reproduction.outcomes:Reproduction",
        "sightline.answers.reproduction:reproduced_outline",
        "sightline.reproduction.outcomes:reproduction_to_dict",
        "sightline.render.csv:reproduced_to_csv",
        without_chart="stopped before the table was computed",
    ),
    "runs": Answer(
        "sightline.runs.store:Run",
        "sightline.answers.runs:runs_outline",
        is_list=True,
        single="sightline.answers.runs:stored_outline",
    ),
    "suite": Answer("", "sightline.answers.comparison:suite_outline"),
    "capacity": Answer("sightline.simulation.capacity:Capacity", "sightline.answers.loads:capacity_outline"),
    **{
        kind: Answer(path, "sightline.notebook.outlines:scenario_outline")
        for kind, path in {
            "training": "sightline.scenario.training:Scenario",
            "generation": "sightline.scenario.generation:GenerationScenario",
            "serving": "sightline.scenario.serving:ServingScenario",
            "operator": "sightline.scenario.operation:OperatorScenario",
        }.items()
    },
}
