"""Outlines of answers as a notebook shows them: each object, and lists of some."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sightline.answers.outline import Outline
from sightline.on_demand import named

if TYPE_CHECKING:
    from sightline.prediction.roofline_table import RooflineTable
    from sightline.profile import Profile
    from sightline.requirements.check import Checked
    from sightline.runs import Run
    from sightline.validation import Result


def _by(path: str) -> Callable[..., Outline]:
    """Return a function of `sightline.answers`, which is loaded when it is first called."""

    def outlined(answer: object) -> Outline:
        found: Outline = named(f"sightline.answers.{path}")(answer)
        return found

    return outlined


capacity = _by("serving:capacity_outline")
plans = _by("plan:plan_outline")
study = _by("study:study_outline")
comparison = _by("comparison:comparison_outline")
explanation = _by("explanation:explained_outline")
sensitivity = _by("analysis:sensitivity_outline")
validation = _by("validation:validation_outline")
runs = _by("runs:runs_outline")
required_of_all = _by("requirements:requirements_outline")
reproduced = _by("reproduction:reproduced_outline")
covered = _by("coverage:coverage_outline")
profiles = _by("several:profiles_outline")


def profile(answer: "Profile") -> Outline:
    """Return one profile with what would help it; a profile of many plans as ranges."""
    from sightline.answers.profile import profile_outline, ranges_outline
    from sightline.explanation.explain import changes_of
    from sightline.profile import SERVING

    if getattr(answer.whole_s, "ndim", 0):
        return ranges_outline(answer)
    # A load's changes would each be simulated, which takes longer than a notebook may to show what it has.
    changes = [] if answer.task is SERVING else changes_of(answer)
    return profile_outline(answer, changes=changes)


def roofline(answer: "RooflineTable") -> Outline:
    """Return what bounds each matmul."""
    from sightline.answers.analysis import roofline_outline
    from sightline.answers.labels import title

    return roofline_outline([(title(answer.scenario), answer)])


def validated(answer: "Result") -> Outline:
    """Return the errors of one part of a suite."""
    return validation([answer])


def run(answer: "Run") -> Outline:
    """Return everything that is stored of a run."""
    from sightline.answers.runs import stored_outline

    return stored_outline(answer)


def required(answer: "Checked") -> Outline:
    """Return what was required of one scenario, and what is met."""
    return required_of_all([answer])
