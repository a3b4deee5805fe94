"""What a training framework makes of its operators' prices, and its constants, fitted per device and framework."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from sightline.catalog import entry, names
from sightline.cost.collectives.groups import Group, data_group, pipeline_boundary, ring_neighbours, tensor_group
from sightline.cost.elementwise import ElementwiseConstants
from sightline.cost.families import Stated, evidence_of, family_of
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.prices import Prices
from sightline.prediction.pass_times import in_setting
from sightline.prediction.training.set_names import set_of
from sightline.program import Collective, Elementwise, Matmul, Operator
from sightline.program.address import GRADIENTS_OF_LINEAR
from sightline.program.techniques.context_parallel import head_ranks
from sightline.quantities import Number, either, larger
from sightline.scenario import Device, Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConstants(Stated):
    """One set per device and framework; the catalog's calibration entry holds value, source and residuals."""

    matmul_slowdown: float
    """Time of a matmul inside a long training run over that of the benchmark: clocks, cold caches, older libraries."""
    unsharded_head_slowdown: float
    """Time of the head's matmuls without tensor parallelism over that of other matmuls; observed, not explained."""
    attention_slowdown: float
    """The same for fused attention."""
    attention_kernel: str = ""
    """Generation of the fused attention kernel: flash-1, flash-2 or flash-3; empty: the framework's."""
    memory_fraction: float
    """Share of the memory bandwidth that element-wise kernels reach."""
    kernel_latency_s: float
    """Ramp-up and drain of an element-wise kernel on the device."""
    launch_forward_s: float
    """Host time per kernel in a forward pass, which runs from Python."""
    launch_backward_s: float
    """Host time per kernel in a backward pass, which the autograd engine runs."""
    synchronization_s: float
    """Time that ranks lose by synchronization in a tensor-parallel collective, per doubling of the group."""
    vector_fraction: float
    """Share of the vector units' rate that element-wise arithmetic (exponentials, random numbers) reaches."""
    micro_batch_s: float
    """Host time per micro-batch that the device waits for: data, bookkeeping, loss."""
    step_s: float
    """Host time per optimizer step that the device waits for: gradient norm, overflow check, logging."""
    overlap_slowdown: float
    """Share of a hidden collective's time by which it slows the compute that it overlaps with."""
    collective_slowdown: float
    """Time of a collective inside training over that of the benchmark: stragglers, contention, unpinned streams."""

    mxfp8_slowdown: float = 1.05
    """Time of a product of operands with a scale per 32 elements over that of fp8 kernels with one per tensor."""
    nvfp4_slowdown: float = 1.25
    """Time of a product of 4-bit operands over what the constants of fp8 kernels give at the 4-bit rate."""

    expert_matmul_slowdown: float = 1.0
    """Time of the experts' products, a kernel each on several streams, over that of one kernel for all of them."""
    spread: float = 0.0
    """Four in five measured steps lie within exp(+-spread) of the prediction; 0 where nobody knows."""

    exact_gradients_slowdown: float = 1.0
    """Time of an fp8 product for a gradient, whose sums are kept in fp32 throughout, over that of one that rounds them
    on the way as forward ones may (fast accumulation, on matrix units of Hopper); where 1 it is part of
    ``matmul_slowdown``."""

    @property
    def element_wise(self) -> ElementwiseConstants:
        """Those of element-wise kernels, which are bound by bytes in training, so that the cache helps them in full."""
        return ElementwiseConstants(
            memory_fraction=self.memory_fraction,
            cache_gain=1.0,
            vector_fraction=self.vector_fraction,
            kernel_latency_s=self.kernel_latency_s,
        )

    def format_slowdown(self, kernel: str) -> float:
        """Time of a product in a format that nobody tabulated over that of the format it borrows constants from."""
        return {"mxfp8": self.mxfp8_slowdown, "nvfp4": self.nvfp4_slowdown}.get(kernel, 1.0)


@cache
def load_training(calibration: str, framework: str, version: str = "") -> tuple[TrainingConstants, str]:
    """Return the constants of a framework on a device family, and their evidence.

    A framework without measurements of its own may name a relative (``like``) whose set it takes but for what it gives
    itself; what no entry covers takes the ``reference`` set.
    """
    sets = entry("calibrations", f"{calibration}/training")["frameworks"]
    for name in (f"{framework}@{version}", framework):
        if name in sets:
            chosen = sets[name]
            relative = sets[chosen["like"]] if "like" in chosen else {}
            return TrainingConstants.from_mapping({**relative, **chosen}), str(chosen["evidence"])
    return TrainingConstants.from_mapping(sets["reference"]), str(sets["reference"]["evidence"])


def training_family(device: Device, framework: str) -> str:
    """Return the nearest family whose training constants know ``framework``, or else the nearest of all."""
    known = (f for f in (device.calibration, *device.relatives) if f"{f}/training" in names("calibrations"))
    return next(
        (f for f in known if framework in _training_frameworks(f)),
        family_of(device, "training"),
    )


@cache
def _training_frameworks(family: str) -> frozenset[str]:
    """The frameworks that a family's training constants were fitted for, or given with a relative of."""
    return frozenset(name.partition("@")[0] for name in entry("calibrations", f"{family}/training")["frameworks"])


def constants_of(scenario: Scenario) -> tuple[TrainingConstants, str]:
    """Return the catalog's constants for the framework on the device, and what they rest on."""
    framework, device = scenario.plan.framework, scenario.cluster.device
    family = training_family(device, framework.name)
    constants, evidence = load_training(family, *set_of(scenario, family))
    if evidence == "calibrated":
        evidence = evidence_of(device, "training") if family == family_of(device, "training") else "extrapolated"
    return constants, evidence


HEAD = "head"


def in_framework(
    operators: Iterable[Operator], prices: Prices, scenario: Scenario, constants: TrainingConstants
) -> Prices:
    """Return the prices of operators as they run inside a training step."""
    return in_setting(operators, prices, partial(_time_s, scenario=scenario, c=constants))


def _time_s(op: Operator, cost: OperatorCost, scenario: Scenario, c: TrainingConstants) -> Number:
    match op:
        case Elementwise():
            return cost.time_s
        case Matmul():
            slowdown = c.matmul_slowdown * c.format_slowdown(op.kernel) * _slowdown_of_module(op, scenario, c)
            # A board that clocks above its datasheet has a slowdown below 1, but stays behind the datasheet's peak.
            return larger(cost.time_s * slowdown, cost.compute_s)
        case Collective():
            # A stage waits for the one before it in the pipeline's schedule, not here.
            if op.ranks == "stages":
                return c.collective_slowdown * cost.time_s
            ranks = training_groups(scenario)(op.ranks).size
            return c.collective_slowdown * cost.time_s + c.synchronization_s * np.log2(ranks)
    return cost.time_s * c.attention_slowdown


def _slowdown_of_module(op: Matmul, scenario: Scenario, c: TrainingConstants) -> Number:
    """Time of a product over that of others, by the module that it belongs to and the pass."""
    slowdown: Number = 1.0
    if op.module == HEAD:
        slowdown = either(scenario.plan.tensor_parallel == 1, c.unsharded_head_slowdown, 1.0)
    elif op.module == "experts":
        slowdown = c.expert_matmul_slowdown
    if op.kernel == "fp8" and op.direction in GRADIENTS_OF_LINEAR:
        slowdown = slowdown * c.exact_gradients_slowdown
    return slowdown


def training_groups(scenario: Scenario) -> Callable[[str], Group]:
    """Return who takes part in the collectives of a training pass, by the kind of ranks.

    Ranks are numbered tensor-parallel first, then context-parallel, then data-parallel.
    """
    plan, cluster = scenario.plan, scenario.cluster

    def group(ranks: str) -> Group:
        match ranks:
            case "expert":
                return data_group(plan.expert_tensor_parallel, plan.expert_parallel, cluster)
            case "expert tensor":
                return data_group(1, plan.expert_tensor_parallel, cluster)
            case "context" | "context heads":
                by_heads = ranks == "context heads"
                split = head_ranks(plan, scenario.model, cluster.per_node) if by_heads else plan.context_parallel
                return data_group(plan.tensor_parallel, split, cluster)
            case "stages":
                return pipeline_boundary(plan.tensor_parallel, plan.replicas, cluster)
            case "context ring":
                return ring_neighbours(plan.tensor_parallel * plan.context_parallel, cluster)
        return tensor_group(plan.tensor_parallel, cluster)

    return group
