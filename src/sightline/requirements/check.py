"""A scenario held against what is required of it."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from sightline.anchors import anchored, find_capacity, predict, simulate
from sightline.errors import InputError
from sightline.profile import Profile, task_of
from sightline.profile.metrics import SERVING
from sightline.quantities import as_json
from sightline.requirements.expression import Requirement, read, split
from sightline.requirements.figures import FITS
from sightline.requirements.verdict import Judged, judged

if TYPE_CHECKING:
    import polars

    from sightline.anchors.given import Given
    from sightline.prediction.anchoring import Anchored
    from sightline.scenario import GenerationScenario, OperatorScenario, Scenario, ServingScenario

_CAPACITY = "capacity_requests_per_s"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checked:
    """An answer, and what was required of it."""

    profile: Profile
    """The prediction; of a load that is served, its simulation."""
    required: Sequence[Judged]
    """One for each requirement, in the order in which they were typed."""
    whole_interval: bool = False
    """Whether the whole 80 % interval of each figure had to meet them."""

    @property
    def met(self) -> bool:
        """Whether every requirement is met."""
        return all(one.met for one in self.required)

    @property
    def sentences(self) -> list[str]:
        """What each requirement came to, with the figure."""
        return [one.sentence for one in self.required]

    @property
    def warnings(self) -> list[str]:
        """Warnings of the prediction; also that a plan does not fit, where that was not asked."""
        found = [*self.profile.scenario.warnings, *self.profile.warnings]
        if self.profile.fits is False and FITS not in {one.key for one in self.required}:
            found.append("the plan does not fit in memory, and nothing requires that it does: add 'fits'")
        return list(dict.fromkeys(found))

    @property
    def table(self) -> "polars.DataFrame":
        """What was required as a data frame: a row for each requirement, with its figure in SI units and 80 % interval.

        Whether a plan fits, and what binds it, is a ``word`` and no ``value``.
        """
        import polars

        intervals = [one.interval or (None, None) for one in self.required]
        return polars.DataFrame(
            {
                "requirement": [one.require for one in self.required],
                "key": [one.key for one in self.required],
                "value": [one.value if isinstance(one.value, float) else None for one in self.required],
                "word": [_word(one.value) for one in self.required],
                "low": [low for low, _ in intervals],
                "high": [high for _, high in intervals],
                "met": [one.met for one in self.required],
            },
            schema_overrides={"word": polars.String} | dict.fromkeys(("value", "low", "high"), polars.Float64),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the documented keys: ``met``, ``required``, and the scenario."""
        from sightline.loading import to_mapping
        from sightline.profile.results import stamped

        document: dict[str, Any] = as_json(
            stamped(
                {
                    "scenario": to_mapping(self.profile.scenario),
                    "source": self.profile.source,
                    "met": self.met,
                    "whole_interval": self.whole_interval,
                    "required": [asdict(one) for one in self.required],
                    "warnings": self.warnings,
                }
            )
        )
        return document

    def __repr__(self) -> str:
        kept = sum(one.met for one in self.required)
        return f"<{kept} of {len(self.required)} requirements met: {'; '.join(self.sentences)}>"


def _word(value: float | str | bool | None) -> str | None:
    """A value that is no figure, as JSON has it."""
    return str(value).lower() if isinstance(value, bool) else value if isinstance(value, str) else None


def check(
    scenario: "Scenario | OperatorScenario | GenerationScenario | ServingScenario",
    require: str | Iterable[str],
    *,
    whole_interval: bool = False,
    anchor: "Anchored | Iterable[Given] | Given" = (),
) -> Checked:
    """Predict a scenario - a load that is served is simulated - and hold the answer against what is required of it.

        found = sl.check(sl.load("examples/llama-2-7b-zero2-8xa800.yaml"), "fits, mfu >= 0.15, memory <= 40 GB")
        found.met, found.sentences, found.required[1].value

    Args:
        scenario: Of any task.
        require: Requirements, separated by commas or in a list: ``fits``, or a result key or its short name
            (``ttft_p90`` of ``ttft_s.p90``, ``memory``), an operator and a bound with or without a unit.
        whole_interval: Whether the whole 80 % interval of each figure has to meet its requirement; a figure without an
            interval then meets none.
        anchor: Runs of one's own cluster that correct the prediction, as `predict` takes them.

    Raises:
        InputError: A requirement names no figure of the task, or what `predict` or `simulate` refuse.
    """
    required = requirements(require, [scenario])[0]
    profile = _answer(scenario, required, anchored(anchor) if anchor else ())
    return Checked(
        profile=profile,
        required=[judged(one, profile, whole_interval=whole_interval) for one in required],
        whole_interval=whole_interval,
    )


def requirements(require: str | Iterable[str], scenarios: Sequence[Any]) -> list[list[Requirement]]:
    """Return what is required of the answer to each scenario.

    Raises:
        InputError: Some requirement is none of a scenario; each mistake is said once, with the scenarios that have it
            where others do not.
    """
    texts = split(require)
    found: list[list[Requirement]] = []
    problems: dict[str, list[str]] = {}
    for place, scenario in enumerate(scenarios, 1):
        try:
            found.append(read(texts, scenario))
        except InputError as error:
            for problem in error.problems:
                problems.setdefault(problem, []).append(scenario.name or f"scenario {place}")
    if problems:
        raise InputError([_told(problem, names, len(scenarios)) for problem, names in problems.items()])
    return found


def _told(problem: str, names: Sequence[str], scenarios: int) -> str:
    """A mistake, after the names of the scenarios that have it where that is not all of them."""
    if len(names) == scenarios:
        return problem
    *others, last = dict.fromkeys(names)
    return f"{f'{last} and {len(others):,} more' if others else last}: {problem}"


def _answer(scenario: Any, required: Sequence[Requirement], known: Any) -> Profile:
    """The prediction, of a load its simulation; the capacity of a server is searched only where it is required."""
    if task_of(scenario.workload.task) is not SERVING:
        return predict(scenario, anchor=known)
    answer = simulate(scenario, anchor=known)
    if _CAPACITY not in {one.figure.key for one in required}:
        return answer
    found = find_capacity(scenario, anchor=known)
    span = {} if found.interval is None else {_CAPACITY: found.interval}
    return answer.replace(capacity_requests_per_s=found.rate, interval={**answer.interval, **span})
