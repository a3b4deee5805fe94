"""Answers with anchors in any form: what the public API and the commands ask for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError
from sightline.prediction import predict as predict_one
from sightline.profile import Profile
from sightline.progress import SILENT, Progress, watched

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sightline.anchors.sources import Given
    from sightline.prediction.anchoring import Anchored
    from sightline.prediction.sensitivity import Sensitivity
    from sightline.prediction.training.constants import TrainingConstants
    from sightline.profile import Profile
    from sightline.scenario import GenerationScenario, OperatorScenario, Scenario, ServingScenario
    from sightline.simulation.capacity import Capacity
    from sightline.simulation.serve import Rows
    from sightline.simulation.server import Load


def anchored(given: "Anchored | Iterable[Given] | Given", store: str | None = None) -> "Anchored":
    """Return what anchors teach, learned once for many scenarios; what was learned before stays as it is.

    Words among them are looked up in a ``store`` of runs.

    Raises:
        InputError: Some anchor cannot be read, teaches nothing, or contradicts physics.
    """
    from sightline.anchors.sources import anchors_of
    from sightline.prediction.anchoring import Anchored, learn

    return given if isinstance(given, Anchored) else learn(anchors_of(given, store))


def predict(
    scenario: "Scenario | OperatorScenario | GenerationScenario | ServingScenario",
    constants: "TrainingConstants | None" = None,
    *,
    anchor: "Anchored | Iterable[Given] | Given" = (),
) -> Profile:
    """Predict a training step of a `Scenario`, a `GenerationScenario`, or the operator of an `OperatorScenario`.

    Sizes, degrees and the device's numbers may be arrays that broadcast; then every number of the answer is an array.
    ``constants`` replace those of the catalog's calibration of a training step, as a fit does. ``anchor`` holds runs
    measured on one's own cluster - profiles, stored runs, scenarios with ``measured``, files, names -, which correct
    the prediction; what `anchored` returns for them is learned once for many scenarios.

    Raises:
        InputError: no micro-batch divides the batch; an anchor teaches nothing about the scenario.
    """
    return predict_one(scenario, constants, anchor=anchored(anchor) if anchor else None)


@watched
def simulate(
    scenario: "ServingScenario",
    *,
    anchor: "Anchored | Iterable[Given] | Given" = (),
    load: "Load | None" = None,
    intervals: bool = True,
    streamed: bool | None = None,
    rows: "Rows | None" = None,
    progress: Progress = SILENT,
) -> Profile:
    """Simulate an engine under a load: what every request waits for, and what that comes to.

    Times of the answer are mappings of seconds, such as ``ttft_s["p90"]``, with ``mean``, ``p50``, ``p90``, ``p99`` and
    the percentile of the objective; rates are per second, ``energy_j`` is joules of all devices. ``outcome`` has a row
    for each request and each iteration, unless the load is streamed. A plan that does not fit has no times.

        profile = sl.simulate(sl.load("examples/serving/llama-3.1-8b-h100.yaml"))
        profile.ttft_s["p90"], profile.requests_per_s, profile.limited_by

    Args:
        scenario: A scenario whose task is serve.
        anchor: Runs of one's own server, or logs of them, which correct its times; what `anchored` returns for them is
            learned once for many scenarios.
        load: Requests instead of those of the workload: parts in order of arrival, times in seconds.
        intervals: Whether to simulate more for 80 % intervals: other draws of a short load, and both ends of the
            iteration times.
        streamed: Whether to keep no rows, in the same memory for any number of requests; by default, if the workload
            states more than a million.
        rows: Of a streamed load: takes the numbers and rows of requests that ended, piece by piece.
        progress: Counts requests; when it is cancelled, further runs and the rest of a streamed load are left out.

    Raises:
        InputError: The task is another, the load cannot be read, the plan has what no simulation follows, or no anchor
            is of the scenario's engine on its device.
    """
    from sightline.simulation.simulate import simulate as simulate_one

    known = _known_of(scenario, anchor)
    requests = None if known is None else known.requests
    answer = simulate_one(
        scenario, load=load, intervals=intervals, streamed=streamed, rows=rows, progress=progress, known=requests
    )
    return answer if known is None else told(answer, known)


@watched
def find_capacity(
    scenario: "ServingScenario",
    *,
    anchor: "Anchored | Iterable[Given] | Given" = (),
    intervals: bool = True,
    progress: Progress = SILENT,
) -> "Capacity":
    """Search the highest rate of arrivals at which as many requests as the objective asks keep every limit of it.

    ``rate`` of the answer is requests per second, None where no rate will do, and ``interval`` its 80 % interval;
    ``sentence`` says it in words, and ``tried`` has the profile of each rate that was simulated, without intervals. A
    load that is drawn has as many requests as the answer needs.

        found = sl.find_capacity(sl.load("examples/serving/llama-3.1-8b-h100.yaml"))
        found.rate, found.interval, [(one.rate, one.profile.ttft_s["p90"]) for one in found.tried]

    Args:
        scenario: A scenario whose task is serve, with ``workload.slo``. Its own rate does not matter; clients of a
            closed loop and bursts arrive as a Poisson process, and a ramp is left out.
        anchor: Runs of one's own server, or logs of them, which correct its times.
        intervals: Whether to search twice more, at the slow and at the fast end of the iteration times.
        progress: Told of every rate that was tried; it may stop the search, which raises `Cancelled`.

    Raises:
        InputError: There is no objective, or what `simulate` refuses.
    """
    from sightline.simulation.simulate import find_capacity as search

    known = _known_of(scenario, anchor)
    return search(scenario, progress, None if known is None else known.requests, intervals=intervals)


def _known_of(scenario: "ServingScenario", anchor: "Anchored | Iterable[Given] | Given") -> "Anchored | None":
    """What anchors teach about a served load; refuses other tasks."""
    task = getattr(getattr(scenario, "workload", None), "task", None)
    if task != "serve":
        problem = f"workload.task is {task}" if task else f"{type(scenario).__name__} is not a scenario"
        raise InputError(f"{problem}; allowed: a scenario with task serve, such as from sightline.load")
    if not anchor:
        return None
    known = anchored(anchor)
    check_server(known, scenario)
    return known


def check_server(known: "Anchored", scenario: "ServingScenario") -> None:
    """Refuse anchors none of which is of a scenario's engine on its device.

    Raises:
        InputError: There is none.
    """
    known.check(scenario)
    wanted = scenario.plan.engine.name, scenario.cluster.device.name
    measured = {
        (step.scenario.plan.engine.name, step.scenario.cluster.device.name): step.name
        for step in known.posterior("generation").timed
    }
    if wanted not in measured:
        (engine, device), name = next(iter(measured.items()))
        raise InputError(
            f"anchor '{name}' was measured with {engine} on {device}, but the scenario uses {wanted[0]} on "
            f"{wanted[1]}; use an anchor with the same engine and device"
        )


def told(answer: Profile, known: "Anchored") -> Profile:
    """Return an answer that says which anchors it rests on, and what does not carry over."""
    warnings = (*answer.warnings, *known.warnings(answer.scenario))
    return answer.replace(anchor=known.to_dicts("generation"), warnings=warnings)


def sensitivity(
    scenario: "Scenario | OperatorScenario | GenerationScenario | ServingScenario",
    *,
    anchor: "Anchored | Iterable[Given] | Given" = (),
) -> "Sensitivity":
    """Predict ``scenario``, the elasticities of its times and, for training, the neighbours of its plan.

    ``anchor`` holds runs of one's own cluster that correct all of them, as in `predict`.

    Raises:
        InputError: what `predict` raises.
    """
    from sightline.prediction.sensitivity import sensitivity as sensitivity_of

    return sensitivity_of(scenario, anchor=anchored(anchor) if anchor else None)


def loads_of(scenarios: Sequence[Any]) -> "list[ServingScenario]":
    """Return scenarios as loads that a server answers.

    Raises:
        InputError: Some are of another task.
    """
    from sightline.scenario import ServingScenario

    loads = [scenario for scenario in scenarios if isinstance(scenario, ServingScenario)]
    if len(loads) < len(scenarios):
        others = sorted({scenario.workload.task for scenario in scenarios} - {"serve"})
        raise InputError(f"workload.task is {', '.join(others)}; simulate supports serve (use predict for other tasks)")
    return loads


def simulated(
    loads: "Sequence[ServingScenario]",
    progress: Progress = SILENT,
    known: "Anchored | None" = None,
    *,
    capacity: bool = False,
    intervals: bool = True,
    stream: bool = False,
) -> "tuple[list[Profile], list[Capacity]]":
    """Return a profile for each load and, if ``capacity`` is asked for, what the searches found.

    Args:
        loads: What is simulated.
        progress: Told how many are done, of one load its requests; each search is a stage of its own.
        known: What runs of one's own cluster teach.
        capacity: Whether the profiles are at the highest rate that meets the objective.
        intervals: Whether they have intervals, which take further runs.
        stream: Whether no rows of requests are kept.
    """
    answers, capacities = [], []
    of_one = progress if len(loads) == 1 else SILENT
    for load in loads if capacity or len(loads) == 1 else progress.over(loads, "simulating"):
        if not capacity:
            streamed = stream or None  # loads that are too long to keep are streamed without being asked
            answer = simulate(load, anchor=known or (), intervals=intervals, streamed=streamed, progress=of_one)
            answers.append(answer)
            continue
        most = find_capacity(load, anchor=known or (), intervals=intervals, progress=progress)
        # The figures are those at the capacity; where no rate meets the objective, those of the load as it is.
        at = load if most.profile is None else most.profile.scenario
        answer = simulate(at, anchor=known or (), intervals=intervals)
        span = {} if most.interval is None else {"capacity_requests_per_s": most.interval}
        answers.append(
            answer.replace(
                capacity_requests_per_s=most.rate,
                curve=most.points(),
                interval={**answer.interval, **span},
            )
        )
        capacities.append(most)
    return answers, capacities
