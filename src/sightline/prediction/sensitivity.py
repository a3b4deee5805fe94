"""Which numbers a prediction hangs on: its elasticity to each number of the device, the links and the host.

The elasticity of a result y to a number x is ``d ln y / d ln x``: -0.4 means that 10 % more of x gives about 4 % less of
y. All numbers are varied in one array-valued prediction, each at two places of the same axis, so that a sensitivity
costs no more than one small search.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from sightline.prediction.answer import predict
from sightline.prediction.training.predict import profile_of
from sightline.profile import TRAINING, Profile
from sightline.quantities import Number
from sightline.scenario import Cluster, GenerationScenario, OperatorScenario, Plan, Scenario
from sightline.scenario.plan import ContextExchange
from sightline.scenario.rules import breaks_no_rule


class Neighbour(NamedTuple):
    """A plan that differs in one decision, and its prediction."""

    change: str
    """The decision as a scenario file would say it: ``recompute: full``."""
    profile: Profile


def neighbours(scenario: Scenario) -> list[Neighbour]:
    """Predict every neighbour of a training scenario whose micro-batch is known, fastest first."""
    found = [Neighbour(change, profile_of(replace(scenario, plan=plan))) for change, plan in plans_beside(scenario)]
    return sorted(found, key=lambda n: float(n.profile.step_time_s))


def plans_beside(scenario: Scenario) -> Iterator[tuple[str, Plan]]:
    """Yield the changes and the plans they lead to.

    Choices take each other value, the micro-batch doubles and halves, tensor, pipeline and context parallelism double
    and halve at the expense of replicas.
    """
    plan = scenario.plan
    for change in (*_choices(plan), *_micro_batches(scenario), *_splits(scenario)):
        other = replace(plan, **change)
        if breaks_no_rule(replace(scenario, plan=other)):
            stated = {field: value for field, value in change.items() if field != "data_parallel"}
            yield ", ".join(f"{field}: {_said(value)}" for field, value in stated.items()), other


def _choices(plan: Plan) -> Iterator[dict[str, Any]]:
    kinds: dict[str, tuple[Any, ...]] = {"recompute": ("none", "selective", "full"), "attention": ("flash", "eager")}
    if plan.data_parallel > 1:
        kinds["zero_stage"] = (0, 1, 2, 3)
    if plan.tensor_parallel > 1:
        kinds["sequence_parallel"] = (False, True)
    if plan.pipeline_parallel > 1 and plan.virtual_stages == 1:
        kinds["schedule"] = ("1f1b", "zero-bubble")
    if plan.context_parallel > 1:
        kinds["context_exchange"] = get_args(ContextExchange)
    for field, values in kinds.items():
        yield from ({field: value} for value in values if value != getattr(plan, field))


def _micro_batches(scenario: Scenario) -> Iterator[dict[str, Any]]:
    plan, batch = scenario.plan, scenario.workload.global_batch
    for sequences in (plan.sequences * 2, plan.sequences // 2):
        if sequences >= 1 and batch % (plan.data_parallel * sequences) == 0:
            yield {"micro_batch": sequences}


def _splits(scenario: Scenario) -> Iterator[dict[str, Any]]:
    """Twice or half a degree of tensor, pipeline or context parallelism, with half or twice the replicas."""
    plan, model, batch = scenario.plan, scenario.model, scenario.workload.global_batch
    limits = {
        "tensor_parallel": model.heads,
        "pipeline_parallel": model.layers // plan.virtual_stages,
        "context_parallel": scenario.workload.sequence_length // 2,
    }
    for (field, limit), factor in product(limits.items(), (2.0, 0.5)):
        degree, replicas = getattr(plan, field) * factor, plan.data_parallel / factor
        whole = degree == int(degree) and replicas == int(replicas)
        if not whole or limit % degree or batch % (replicas * plan.sequences):
            continue
        change = {field: int(degree), "data_parallel": int(replicas)}
        if field == "tensor_parallel" and degree == 1:
            change["sequence_parallel"] = False
        if field == "pipeline_parallel" and degree == 1 and plan.virtual_stages > 1:
            continue
        yield change


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


STEP = 0.01
"""Half the width of a central difference: far above rounding, far below where one bound gives way to another."""

AnyScenario: TypeAlias = Scenario | GenerationScenario | OperatorScenario
Scale = Callable[[Cluster, Number], Cluster]


def _device(field: str) -> Scale:
    def scaled(cluster: Cluster, factor: Number) -> Cluster:
        return replace(cluster, device=replace(cluster.device, **{field: getattr(cluster.device, field) * factor}))

    return scaled


def _peak_flops(cluster: Cluster, factor: Number) -> Cluster:
    rates = {dtype: rate * factor for dtype, rate in cluster.device.peak_flops.items()}
    return replace(cluster, device=replace(cluster.device, peak_flops=rates))


def _link(field: str) -> Scale:
    def scaled(cluster: Cluster, factor: Number) -> Cluster:
        link = cluster.intra_node
        return replace(cluster, intra_node=replace(link, **{field: getattr(link, field) * factor}))

    return scaled


def _network(field: str) -> Scale:
    def scaled(cluster: Cluster, factor: Number) -> Cluster:
        network = cluster.network
        return replace(cluster, network=replace(network, **{field: getattr(network, field) * factor}))

    return scaled


NUMBERS: Mapping[str, Scale] = {
    "device.peak_flops": _peak_flops,
    "device.memory_bandwidth": _device("memory_bandwidth"),
    "device.l2_bandwidth": _device("l2_bandwidth"),
    "device.l2_bytes": _device("l2_bytes"),
    "device.vector_flops": _device("vector_flops"),
    "intra_node.bandwidth": _link("bandwidth"),
    "intra_node.latency_s": _link("latency_s"),
    "network.bandwidth_per_node": _network("bandwidth_per_node"),
    "network.latency_s": _network("latency_s"),
}
"""A number's name to how a cluster with a multiple of it is made. The device's units are left out: they come whole."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sensitivity:
    """What a prediction hangs on."""

    answer: Profile
    elasticity: Mapping[str, Mapping[str, float]]
    """By number (`NUMBERS`), then by result key."""
    neighbours: Sequence[Neighbour]
    """For training: the plans that differ in one decision, fastest first."""


def sensitivity(scenario: AnyScenario) -> Sensitivity:
    """Predict ``scenario``, the elasticities of its times and, for training, the neighbours of its plan.

    Raises:
        InputError: what `predict` raises.
    """
    answer = predict(scenario)
    near = neighbours(answer.scenario) if answer.task is TRAINING else []
    return Sensitivity(answer=answer, elasticity=elasticities(answer.scenario), neighbours=near)


def elasticities(scenario: AnyScenario) -> dict[str, dict[str, float]]:
    """Return the elasticity of each time of ``scenario`` to each of `NUMBERS`: number, then result key.

    The micro-batch of a training step must be known.
    """
    cluster = scenario.cluster
    for position, scale in enumerate(NUMBERS.values()):
        cluster = scale(cluster, _factors(position))
    results = _results(predict(replace(scenario, cluster=cluster)))
    width = np.log1p(STEP) - np.log1p(-STEP)
    out: dict[str, dict[str, float]] = {}
    for position, name in enumerate(NUMBERS):
        out[name] = {}
        for key, values in results.items():
            low, high = np.broadcast_to(values, 2 * len(NUMBERS))[2 * position : 2 * position + 2]
            out[name][key] = float((np.log(high) - np.log(low)) / width)
    return out


def _factors(position: int) -> NDArray[np.float64]:
    """The multiples of one number along the axis: less and more at its own two places, 1 at the others'."""
    factors = np.ones(2 * len(NUMBERS))
    factors[2 * position : 2 * position + 2] = 1.0 - STEP, 1.0 + STEP
    return factors


def _results(answer: Profile) -> dict[str, Number]:
    """The times of an answer by their result keys."""
    return {key: getattr(answer, key) for key in answer.task.times}
