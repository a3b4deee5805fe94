"""A replica of an engine - a model under a plan on its ranks - and the passes that it runs, written out and priced."""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial

from sightline.content import LargeArrayError, Results, content, record, remembered
from sightline.cost.clock import at_its_clock
from sightline.cost.collectives.libraries import Group, cluster_collectives, data_group, pipeline_boundary, tensor_group
from sightline.cost.device_model import DeviceModel, KernelChoice, device_model
from sightline.cost.l2 import least_s
from sightline.cost.matmul import UNIT_BANDWIDTH, overlapped
from sightline.cost.operator_cost import OperatorCost, Ranks
from sightline.cost.prices import Prices, price
from sightline.frameworks import Engine
from sightline.prediction.eager_calls import in_eager_pass, pass_execution
from sightline.prediction.generation.engine_constants import InferenceConstants
from sightline.prediction.pass_times import PassTimes, in_setting, operator_times, seconds_of, sum_of_passes
from sightline.program import (
    Batch,
    Block,
    CachedAttention,
    Collective,
    GroupedMatmul,
    InferenceKernels,
    Matmul,
    MatrixVector,
    Operator,
    Program,
    inference_kernels,
    write,
)
from sightline.program.formats import HALF_SUMS, Formats, formats_of, plain_dtype
from sightline.program.mixer_operators import SelectedAttention
from sightline.quantities import Number, either
from sightline.scenario import Cluster, Device, GenerationPlan, GenerationScenario, Model

ATTENDING = (CachedAttention, SelectedAttention)
"""Operators in which new tokens meet the tokens before them."""


def time_in_engine(op: Operator, cost: OperatorCost, c: InferenceConstants) -> Number:
    """Return the seconds of an operator in an engine's pass, the gap before the next kernel included."""
    if isinstance(op, Collective):
        return cost.time_s * c.collective_slowdown + (cost.time_s > 0.0) * c.synchronization_s
    gap_s = c.kernel_gap_s * op.kernels
    if isinstance(op, MatrixVector):
        legs = (cost.memory_s / c.vector_memory_fraction, cost.time_s * UNIT_BANDWIDTH / c.vector_unit_bandwidth)
        few_rows = op.m <= op.most_rows
        return either(few_rows, overlapped(*legs), cost.time_s * c.matmul_slowdown) + gap_s
    return cost.time_s * slowdown_of(op, c) + gap_s


def least_time_s(op: Operator, cost: OperatorCost, c: InferenceConstants, model: DeviceModel) -> Number:
    """Return the seconds of an operator in no engine but a bound: of its largest leg - arithmetic, memory, L2."""
    if isinstance(op, Collective):
        return time_in_engine(op, cost, c)
    return least_s(op, cost, model, peak_share=c.peak_share, bandwidth_share=c.bandwidth_share)


def slowdown_of(op: Operator, c: InferenceConstants) -> Number:
    """Return the time of an operator inside an engine's pass over that of the operator alone; collectives apart."""
    if isinstance(op, Matmul):
        if op.dtype == "nvfp4":
            return c.matmul_slowdown * c.nvfp4_slowdown
        return c.matmul_slowdown * (c.fp8_block_slowdown if op.kernel == "fp8-block" else 1.0)
    if isinstance(op, ATTENDING):
        return c.decode_attention_slowdown if op.decode else c.prefill_attention_slowdown
    if isinstance(op, GroupedMatmul):
        return either(op.in_slots > 0.0, *c.slowdown_of_experts(op.kernel))
    return c.elementwise_slowdown


@record
class PricedPass:
    """One pass of a replica through all layers, with the prices of its operators, whatever engine runs it."""

    kernels: InferenceKernels
    program: Program
    prices: Prices
    device_model: DeviceModel

    def in_engine(self, constants: InferenceConstants) -> Prices:
        """Return the prices as the engine runs the operators."""
        inside = partial(time_in_engine, c=constants)
        if constants.is_bound:
            inside = partial(least_time_s, c=constants, model=self.device_model)
        return in_setting(self.program.operators, self.prices, inside)

    def of_group(self, place: int | None) -> "PricedPass":
        """Return the pass with no other operators than those of one group of its batch's several, or of all tokens."""

        def left(block: Block) -> Block:
            return replace(block, forward=[op for op in block.forward if op.group == place])

        embedding, layers, head = left(self.program.embedding), map(left, self.program.layers), left(self.program.head)
        return replace(self, program=replace(self.program, embedding=embedding, layers=tuple(layers), head=head))

    def times(self, prices: Prices) -> PassTimes:
        """Return the seconds of the pass, as if one device (with its tensor-parallel peers) held all layers."""
        blocks = self.program.blocks
        return sum_of_passes(
            [float(block.count) for block in blocks], [operator_times(block.operators, prices) for block in blocks]
        )

    def attention_s(self, prices: Prices) -> Number:
        """Return the seconds of the pass that new tokens spend with the tokens before them."""
        return sum(
            block.count * seconds_of([op for op in block.operators if isinstance(op, ATTENDING)], prices)
            for block in self.program.layers
        )


def price_passes(passes: Sequence[Program], ranks: Ranks) -> Prices:
    """Return the price of every operator of several passes, priced together where launches are asynchronous."""
    if ranks.device_model.asynchronous:
        return price([op for program in passes for op in program.operators], ranks)
    prices: Prices = {}
    for program in passes:
        raw = price(program.operators, replace(ranks, execution=partial(pass_execution, program)))
        prices |= in_eager_pass(program, raw, ranks.device_model)
    return prices


@record
class Worker:
    """A replica of an engine; of its scenario's workload only whether all tokens are the same counts."""

    scenario: GenerationScenario
    formats: Formats
    ranks: Ranks

    @property
    def plan(self) -> GenerationPlan:
        """How the engine runs the model."""
        return self.scenario.plan

    @property
    def model(self) -> Model:
        """What it runs."""
        return self.scenario.model

    def priced(self, batches: Sequence[Batch]) -> list[PricedPass]:
        """Write a pass of each batch out and price the operators of all together."""
        kernels = [inference_kernels(self.scenario, self.formats, batch) for batch in batches]
        keys = [_key(x, self.ranks) for x in kernels]
        found = [None if key is None else _PASSES.get(key) for key in keys]
        unknown = iter(_priced([x for x, one in zip(kernels, found, strict=True) if one is None], self.ranks))
        passes = [one or next(unknown) for one in found]
        for key, one in zip(keys, passes, strict=True):
            if key is not None:
                _PASSES.put(key, one)
        return passes


_PASSES: Results[PricedPass] = Results(entries=512, kind="blocks")


def _key(kernels: InferenceKernels, ranks: Ranks) -> Hashable:
    """What a priced pass depends on; None for meshes."""
    try:
        return content((kernels, ranks.cluster), largest_array=0)
    except LargeArrayError:
        return None


def _priced(kernels: Sequence[InferenceKernels], ranks: Ranks) -> list[PricedPass]:
    """Passes written out and priced together."""
    programs = [write(x) for x in kernels]
    prices = price_passes(programs, ranks)
    return [
        PricedPass(
            kernels=x,
            program=of,
            prices={id(op): prices[id(op)] for op in of.operators},
            device_model=ranks.device_model,
        )
        for x, of in zip(kernels, programs, strict=True)
    ]


def worker_of(scenario: GenerationScenario) -> Worker:
    """Return the replica that answers a scenario."""
    scenario = at_its_clock(scenario)
    plan, engine, cluster = scenario.plan, scenario.plan.engine, scenario.cluster
    kernels = KernelChoice(
        stream_generation=engine.kernels.stream_kernels,
        eager=engine.kernels.eager,
        dtype=plain_dtype(plan.dtype, cluster.device),
    )
    return Worker(
        scenario=scenario,
        formats=_formats(scenario.model, plan.quantization, plan.dtype, engine, cluster.device),
        ranks=Ranks(
            device_model=device_model(cluster.device, kernels),
            cluster=cluster,
            group=partial(_group, plan=plan, cluster=cluster),
            library=cluster_collectives(
                cluster,
                all_reduce=engine.all_reduce_library,
                whole_domain=engine.collectives.reduces_over_domain,
                block_bandwidth=engine.collectives.block_bandwidth,
                launches=engine.collectives.launches,
            ),
        ),
    )


@remembered(entries=256)
def _formats(model: Model, quantization: tuple[str, ...] | None, dtype: str, engine: Engine, device: Device) -> Formats:
    in_fp16 = engine.llama_cpp.sums_in_fp16 and dtype == "fp16" and HALF_SUMS in device.peak_flops
    dtype = HALF_SUMS if in_fp16 else dtype
    formats = formats_of(model, quantization, dtype, device, whole_model=engine.kernels.quantizes_head)
    return formats.with_weight_bytes(engine.kernels.weight_bytes)


def _group(ranks: str, plan: GenerationPlan, cluster: Cluster) -> Group:
    """The ranks that take part in a collective of a pass."""
    if ranks == "tensor":
        return tensor_group(plan.tensor_parallel, cluster)
    if ranks == "stages":
        return pipeline_boundary(plan.tensor_parallel, plan.data_parallel, cluster)
    return data_group(plan.tensor_parallel, plan.data_parallel, cluster)
