"""A space of plans: one question, the fields of its plan that are free, and the values that they may take."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Generic, TypeVar

from sightline.content import fix_mappings
from sightline.errors import InputError, nearest
from sightline.quantities import show
from sightline.scenario.cluster import Cluster, Question
from sightline.scenario.generation import SERVING_ONLY, GenerationScenario
from sightline.scenario.precision import LOW_PRECISION
from sightline.scenario.training import Scenario

Q = TypeVar("Q", bound=Question)

TRAINING_FIELDS: Final = (
    *("tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel", "expert_parallel"),
    *("sequence_parallel", "virtual_stages", "schedule", "micro_batch", "zero_stage", "recompute", "offload"),
    *("attention", "compile"),
)
"""Fields of a training plan that are searched where a scenario leaves them out."""

GENERATION_FIELDS: Final = (
    *("framework", "quantization", "disaggregate", "tensor_parallel", "pipeline_parallel", "data_parallel"),
    *("expert_parallel", "replicas", "max_batched_tokens", "chunked_prefill"),
)
"""Fields of a plan of generation that are searched where a scenario leaves them out."""
POOL_FIELDS: Final = ("tensor_parallel", "pipeline_parallel", "data_parallel", "expert_parallel", "replicas", "batch")
"""Fields of workers of their own: a space has them under names such as ``prefill.tensor_parallel``."""
_POOL_DEGREES = frozenset(POOL_FIELDS) - {"replicas", "batch"}
_RANKS = {
    "data_parallel": {"tensor_parallel", "pipeline_parallel", "context_parallel"},
    "replicas": {"tensor_parallel", "pipeline_parallel", "data_parallel"},
}
"""Degrees that take devices from a number of replicas, which is free where one of them is."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Space(Generic[Q]):
    """What is searched of one model on one cluster."""

    scenario: Q
    """The question. Free fields of its plan hold defaults that nobody looks at."""
    values: Mapping[str, tuple[Any, ...] | None] = field(default_factory=dict)
    """By field of the plan: the values that it may take, None for all. Fields that are not named are fixed."""
    at_most: bool = False
    """Whether the global batch is a limit: a plan takes the largest multiple of its replicas and micro-batch."""
    clusters: tuple[Cluster, ...] = ()
    """Clusters of the same parts that are searched together, from small to large; none: the question's alone."""
    launchable: bool = True
    """Whether engines only have plans that can be launched, as far as a launch is written for any of them."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Dotted keys by which this question differs from others that are searched with it, as they were stated."""
    warnings: tuple[str, ...] = ()
    """What was asked for beside it and cannot be."""

    def __post_init__(self) -> None:
        offers = self.scenario.plan.framework.offers if isinstance(self.scenario, Scenario) else {}
        if self.values.get("compile", ()) is None and len(offers.get("compile", ())) == 1:
            # Where a framework has no choice nothing is searched.
            object.__setattr__(self, "values", {**self.values, "compile": offers["compile"]})
        fix_mappings(self)

    @property
    def sizes(self) -> tuple[Cluster, ...]:
        """All clusters."""
        return self.clusters or (self.scenario.cluster,)

    @property
    def free(self) -> tuple[str, ...]:
        """Fields with more than one possible value."""
        return tuple(name for name, values in self.values.items() if values is None or len(values) > 1)


def opened(scenario: Scenario | GenerationScenario, free: Iterable[str] | None = None) -> Space[Any]:
    """Return the space of a scenario with some fields of its plan free, by default all; others have their values.

    Raises:
        InputError: a field that no search looks at.
    """
    plan: Any = scenario.plan
    training = isinstance(scenario, Scenario)
    fields = TRAINING_FIELDS if training else GENERATION_FIELDS
    names = tuple(fields if free is None else free)
    if wrong := [name for name in names if name not in fields]:
        allowed = ", ".join(fields)
        raise InputError([f"free names {show(name)}; allowed: {allowed}{nearest(name, fields)}" for name in wrong])
    values: dict[str, tuple[Any, ...] | None] = {}
    if training:
        values = {name: (getattr(plan, name),) for name in fields}
        values |= {"micro_batch": None} if plan.micro_batch is None else {}
    values |= dict.fromkeys(names)
    replicas = "data_parallel" if training else "replicas"
    values |= {replicas: None} if _RANKS[replicas] & set(names) else {}
    return Space(scenario=scenario, values=values)


def freed(space: Space[Any], free: Iterable[str]) -> Space[Any]:
    """Return a space with only the named fields free; what its source states and restricts stays as it is.

    A named field that the source restricts to several values takes these. Others that it leaves out have the
    scenario's values, degrees of workers of their own are 1, and replicas take the devices that are left.

    Raises:
        InputError: a field that no search looks at.
    """
    names = frozenset(free)
    replicas = "data_parallel" if isinstance(space.scenario, Scenario) else "replicas"
    loose = names | ({replicas} if _RANKS[replicas] & names else set())
    stays = {
        name: values
        for name, values in space.values.items()
        if values is not None and (len(values) > 1 or name not in loose)
    }
    follows = {replicas: None} if space.values.get(replicas, ()) is None else {}
    pools = ("prefill", "decode") if True in stays.get("disaggregate", ()) else ()
    whole = {f"{pool}.{name}": (1,) for pool in pools for name in _POOL_DEGREES - names}
    return replace(space, values={**opened(space.scenario, names).values, **follows, **whole, **stays})


_OF_FP8 = ("fp8_recipe", "fp8_parameter_gather", "fp8_transpose_cache", "bf16_layers", "narrow_head")
_OF_GROUPS = ("group_batches", "split", "stage_layers")
"""Choices of low precision and of heterogeneous devices."""


def choices_of(scenario: Any) -> list[str]:
    """Return the fields of a scenario's plan that have an effect on it, the engine as ``framework``."""
    plan, names = scenario.plan, ["framework" if one.name == "engine" else one.name for one in fields(scenario.plan)]
    without = {
        *(() if scenario.cluster.groups else _OF_GROUPS),
        *(() if plan.dtype in LOW_PRECISION else _OF_FP8),
        *(() if scenario.workload.task == "serve" else SERVING_ONLY),
        *(() if getattr(plan, "adapter", None) else ("adapter_exchange",)),
        *(() if scenario.model.experts else (name for name in names if name.startswith("expert_"))),
    }
    return [name for name in names if name not in without]
