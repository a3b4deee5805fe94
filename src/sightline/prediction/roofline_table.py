"""Which matmuls of a layer arithmetic bounds and which memory, in prefill and in decode (arXiv 2407.14645, section 5).

As the paper does, attention is taken apart into two products, which engines run as one kernel: the scores (queries by
keys) and the context (scores by values). Each key/value head is one product of a batch; the query heads that share it
are its rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from sightline.content import description, record
from sightline.cost.device_model import DeviceModel
from sightline.cost.l2 import l2_s
from sightline.cost.prices import price
from sightline.errors import InputError
from sightline.loading import to_mapping
from sightline.loading.clusters import read_device
from sightline.prediction.common_figures import bound_of
from sightline.prediction.generation.phases import price_generation
from sightline.profile.results import stamped
from sightline.program import CachedAttention, GroupedMatmul, Matmul, Program
from sightline.program.operators import ATTENTION_CORE, Part
from sightline.quantities import Number, rounded_up
from sightline.scenario import Device, GenerationScenario, OperatorScenario, Scenario, ServingScenario
from sightline.scenario.rules import facts_of
from sightline.scenario.rules.engines import engine_dtype
from sightline.scenario.rules.rulebook import broken_rules

if TYPE_CHECKING:
    import polars

AnyScenario: TypeAlias = Scenario | GenerationScenario | OperatorScenario | ServingScenario
Phase = Literal["prefill", "decode"]
SCORES: Final[Part] = "scores"
CONTEXT: Final[Part] = "context"
"""The two products of attention."""
ALIGNED = 16
"""Keys that a cache block holds: kernels read whole ones, whatever the context's length."""


@description
class RooflineRow:
    """One matmul of a layer on one device: ``batch`` products of an m x k with a k x n matrix."""

    phase: Phase
    layer: str
    """Kind of layer; ``layer`` where the model has one kind."""
    matmul: str
    batch: float
    m: float
    n: float
    k: float
    flops: float
    bytes: float
    """Compulsory traffic: both operands once and the product."""
    peak_flops: float
    """Of the device, in the type the product is computed in."""
    memory_bandwidth: float
    l2_s: float
    """Seconds in which its bytes cross L2 at the datasheet's bandwidth (`sightline.cost.l2`)."""
    predicted_s: float
    """With the device's calibrated constants."""

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return self.flops / self.bytes

    @property
    def ridge(self) -> float:
        """FLOPs per byte from which arithmetic bounds on this device."""
        return self.peak_flops / self.memory_bandwidth

    @property
    def bound(self) -> Literal["compute", "memory"]:
        """What bounds it on the roofline."""
        return "compute" if self.intensity >= self.ridge else "memory"

    @property
    def compute_s(self) -> float:
        """Seconds of its arithmetic at the datasheet's peak."""
        return self.flops / self.peak_flops

    @property
    def memory_s(self) -> float:
        """Seconds of its bytes at the datasheet's bandwidth."""
        return self.bytes / self.memory_bandwidth

    @property
    def bound_level(self) -> str:
        """Which level of the machine bounds it, as everywhere: compute, dram or l2."""
        return str(bound_of(self, self.l2_s).level)

    @property
    def roofline_s(self) -> float:
        """Seconds at the datasheet's peak or bandwidth, whichever is longer."""
        return max(self.compute_s, self.memory_s)

    @property
    def least_s(self) -> float:
        """Seconds of the longest of three legs: arithmetic, bytes of the memory, and bytes across L2."""
        return max(self.roofline_s, self.l2_s)


@record
class RooflineTable:
    """The matmuls of a scenario's layers on its device."""

    scenario: GenerationScenario
    rows: tuple[RooflineRow, ...]

    @property
    def table(self) -> "polars.DataFrame":
        """The rows as a data frame, with their intensity, ridge, bound and time at the roofline."""
        import polars

        derived = ("intensity", "ridge", "bound", "bound_level", "roofline_s", "least_s")
        names = (*(f.name for f in fields(RooflineRow)), *derived)
        return polars.DataFrame({name: [getattr(row, name) for row in self.rows] for name in names})


def roofline(scenario: AnyScenario, device: str | Device | None = None) -> RooflineTable:
    """Return which matmuls of a layer are compute-bound and which are memory-bound, in prefill and in decode.

    Args:
        scenario: A scenario of generation.
        device: A device, or the name of one in the catalog, that replaces the scenario's own.

    Raises:
        InputError: The scenario is of another task, there is no such device, or it has no rate in the plan's format.
    """
    if not isinstance(scenario, GenerationScenario):
        task = scenario.workload.task
        raise InputError(f"workload.task is '{task}'; allowed for this table: generate")
    if device is None:
        return roofline_table(scenario)
    other = read_device(device) if isinstance(device, str) else device
    moved = replace(scenario, cluster=replace(scenario.cluster, device=other))
    problems = list(broken_rules([engine_dtype], facts_of(moved)))
    if problems:
        raise InputError(list(map(str, problems)))
    return roofline_table(moved)


def roofline_table(scenario: GenerationScenario) -> RooflineTable:
    """Return the matmuls of every kind of layer, of one pass each of prefill and decode on one device.

    Sizes are those of the plan: cut by tensor parallelism, prompts as the engine batches and cuts them, decode at the
    mean context. Left out: the embedding and the head, and mixers that keep a state (they are no matmuls).
    """
    priced = price_generation(scenario)
    matmuls = [*_matmuls("prefill", priced.prefill.program), *_matmuls("decode", priced.decode.program)]
    executed = [_in_blocks(op) for *_, op in matmuls]
    prices = price(executed, priced.worker.ranks)
    rows = (
        _row(phase, layer, op, float(prices[id(run)].time_s), priced.worker.ranks.device_model)
        for (phase, layer, op), run in zip(matmuls, executed, strict=True)
    )
    return RooflineTable(scenario=scenario, rows=tuple(rows))


def _matmuls(phase: Phase, program: Program) -> Iterator[tuple[Phase, str, Matmul | GroupedMatmul]]:
    for block in program.layers:
        for op in block.operators:
            if isinstance(op, CachedAttention):
                yield from ((phase, block.name, part) for part in _unfused(op))
            elif isinstance(op, Matmul | GroupedMatmul):
                yield phase, block.name, op


def _unfused(op: CachedAttention) -> tuple[Matmul, Matmul]:
    """Attention as two products per sequence and key/value head, over all keys that any query sees."""
    seen = op.context_tokens
    if op.window is not None:
        seen = np.minimum(seen, op.window + op.query_tokens)
    rows, heads = op.query_tokens * op.heads / op.kv_heads, op.batch * op.kv_heads

    def product(part: Part, n: Number, k: Number) -> Matmul:
        return Matmul(
            module=op.module,
            part=part,
            m=rows,
            n=n,
            k=k,
            batch=heads,
            dtype=op.dtype,
            element_bytes=op.element_bytes,
            output_bytes=op.element_bytes,
            weight_bytes=float(op.cache_bytes),
        )

    return product(SCORES, float(seen), op.head_dim), product(CONTEXT, op.value_dim, float(seen))


def _in_blocks(op: Matmul | GroupedMatmul) -> Matmul | GroupedMatmul:
    """A product over the context as a kernel runs it, over whole cache blocks; any other as it is."""
    if isinstance(op, GroupedMatmul) or op.part not in (SCORES, CONTEXT):
        return op
    return replace(op, n=rounded_up(op.n, ALIGNED), k=rounded_up(op.k, ALIGNED))


def _row(phase: Phase, layer: str, op: Matmul | GroupedMatmul, time_s: float, model: DeviceModel) -> RooflineRow:
    device = model.device
    batch, m = (op.active, op.rows / op.active) if isinstance(op, GroupedMatmul) else (op.batch, op.m)
    return RooflineRow(
        phase=phase,
        layer=layer,
        matmul=_name(op),
        batch=float(batch),
        m=float(m),
        n=float(op.n),
        k=float(op.k),
        flops=float(op.flops),
        bytes=float(op.bytes),
        peak_flops=float(device.peak_flops[op.dtype]),
        memory_bandwidth=float(device.memory_bandwidth),
        l2_s=float(l2_s(op, model)),
        predicted_s=time_s,
    )


def _name(op: Matmul | GroupedMatmul) -> str:
    """The module, and the operator where that says more."""
    if op.module == ATTENTION_CORE:
        return op.part
    return op.module if op.part == "matmul" or op.part in op.module else f"{op.module} {op.part}"


_SIZES = ("batch", "m", "n", "k", "flops", "bytes")
_FIGURES = (*_SIZES, "intensity", "ridge", "bound", "bound_level", "roofline_s", "predicted_s")


def rooflines_to_list(tables: Sequence[RooflineTable]) -> list[dict[str, Any]]:
    """Return each table with its scenario, device and rows, in SI units."""
    return [
        stamped(
            {
                "scenario": to_mapping(table.scenario),
                "device": table.scenario.cluster.device.name,
                "rows": [row_to_dict(row) for row in table.rows],
            }
        )
        for table in tables
    ]


def row_to_dict(row: RooflineRow) -> dict[str, Any]:
    """Return a matmul of a roofline: what it is, its figures and what bounds it."""
    named = {"phase": row.phase, "layer": row.layer, "matmul": row.matmul}
    return {**named, **{key: getattr(row, key) for key in _FIGURES}}
