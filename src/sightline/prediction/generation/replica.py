"""A replica of an engine - a model under a plan on its ranks -, the passes that it runs, priced, and its iterations.

One iteration is a batch through all pipeline stages, on devices and on the host: prefill, decoding and steady loops are
made of them. With speculative decoding a pass verifies drafted tokens (arXiv 2211.17192), which a prediction layer may
draft. Legend: ``p`` pipeline stages, ``m`` micro-batches that fill them.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial

from sightline.content import LargeArrayError, Results, content, record, remembered
from sightline.cost.clock import at_its_clock
from sightline.cost.collectives.libraries import Group, cluster_collectives, data_group, pipeline_boundary, tensor_group
from sightline.cost.device_model import DeviceModel, KernelChoice, device_model
from sightline.cost.l2 import least_s
from sightline.cost.matmul import OVERLAP, UNIT_BANDWIDTH, overlapped
from sightline.cost.prices import OperatorCost, Prices, Ranks, price
from sightline.frameworks import Engine
from sightline.prediction.generation.engine_constants import LONG_PREFILL_TOKENS, InferenceConstants
from sightline.prediction.pass_times import (
    PassTimes,
    in_eager_pass,
    in_setting,
    operator_times,
    pass_execution,
    seconds_of,
    sum_of_passes,
)
from sightline.program import (
    Batch,
    Block,
    CachedAttention,
    Collective,
    Elementwise,
    GroupedMatmul,
    InferenceKernels,
    Matmul,
    MatrixVector,
    Operator,
    Program,
    inference_kernels,
    prompts,
    write,
)
from sightline.program.formats import HALF_SUMS, Formats, formats_of, plain_dtype
from sightline.program.mixer_operators import SelectedAttention
from sightline.program.sampling import DRAWING
from sightline.quantities import Number, anywhere, either, larger, smaller
from sightline.scenario import Cluster, Device, GenerationPlan, GenerationScenario, Model

WITH_EXPERTS = ("experts", "shared experts")
"""Modules that devices may hold alone, while others hold the rest of the model."""
ATTENDING = (CachedAttention, SelectedAttention)
"""Operators in which new tokens meet the tokens before them."""


def time_in_engine(op: Operator, cost: OperatorCost, c: InferenceConstants) -> Number:
    """Return the seconds of an operator in an engine's pass, the gap before the next kernel included."""
    if isinstance(op, Collective):
        return cost.time_s * c.collective_slowdown + (cost.time_s > 0.0) * c.synchronization_s
    gap_s = c.kernel_gap_s * op.kernels
    slowed_s = slowed(cost.time_s, in_bulk_s(op, cost), *slowdowns_of(op, c))
    if isinstance(op, MatrixVector):
        over_units = 1.0 if op.on_matrix_units else UNIT_BANDWIDTH / c.vector_unit_bandwidth
        legs = (cost.memory_s / c.vector_memory_fraction, cost.time_s * over_units)
        few_rows = op.m <= op.most_rows
        return either(few_rows, overlapped(*legs), slowed_s) + gap_s
    return slowed_s + gap_s


def least_time_s(op: Operator, cost: OperatorCost, c: InferenceConstants, model: DeviceModel) -> Number:
    """Return the seconds of an operator in no engine but a bound: of its largest leg - arithmetic, memory, L2."""
    if isinstance(op, Collective):
        return time_in_engine(op, cost, c)
    return least_s(op, cost, model, peak_share=c.peak_share, bandwidth_share=c.bandwidth_share)


def slowdowns_of(op: Operator, c: InferenceConstants) -> tuple[Number, Number]:
    """Return the time of an operator inside an engine's pass over that of the operator alone: of few rows, and in bulk.

    What engines gain over a kernel alone is its start and what lies in caches by then: no kernel that streams more than
    L2 holds has any of it, and long products meet the power limit besides. Collectives apart.
    """
    if isinstance(op, Matmul):
        by_block = c.fp8_block_slowdown if op.kernel == "fp8-block" else 1.0
        by_format = c.nvfp4_slowdown if op.dtype == "nvfp4" else by_block
        in_bulk = c.prefill_matmul_slowdown * (c.narrow_prefill_slowdown if op.element_bytes < 2.0 else 1.0)
        return c.matmul_slowdown * by_format, in_bulk * by_format
    if isinstance(op, GroupedMatmul):
        # Whole blocks are those of a library that was measured alone, as dense products were.
        few, bulk = (either(op.empty_rows > 0.0, c.matmul_slowdown, own) for own in c.slowdown_of_experts(op.kernel))
        return few, bulk
    if op.part in DRAWING:
        return 1.0, 1.0
    if isinstance(op, Elementwise):
        return c.elementwise_slowdown, larger(c.elementwise_slowdown, 1.0)
    slowdown: Number = c.elementwise_slowdown
    if isinstance(op, ATTENDING):
        slowdown = c.decode_attention_slowdown if op.decode else c.prefill_attention_slowdown
    return slowdown, slowdown


def in_bulk_s(op: Operator, cost: OperatorCost) -> Number:
    """Return the seconds of the leg that binds an operator in bulk: a product's arithmetic, a stream's bytes."""
    if isinstance(op, Matmul | GroupedMatmul):
        return cost.arithmetic_s
    return cost.least_s if isinstance(op, Elementwise) else 0.0


def slowed(time_s: Number, bulk_s: Number, few: Number, bulk: Number) -> Number:
    """Return the seconds of an operator whose leg in bulk is slowed by ``bulk``, and all else by ``few``.

    Both are joined as legs that overlap are (``overlapped``), so that no faster device takes longer.
    """
    leg_s = smaller(bulk_s, time_s) ** OVERLAP
    return (few**OVERLAP * (time_s**OVERLAP - leg_s) + bulk**OVERLAP * leg_s) ** (1 / OVERLAP)


def of_operators(program: Program, chosen: Callable[[Operator], bool]) -> Program:
    """Return a pass with no other operators than those."""

    def left(block: Block) -> Block:
        return replace(block, forward=[op for op in block.forward if chosen(op)])

    layers = tuple(map(left, program.layers))
    return replace(program, embedding=left(program.embedding), layers=layers, head=left(program.head))


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

    def utilization(self, constants: InferenceConstants) -> tuple[Number, Number]:
        """Return the shares of the memory's bandwidth and of the peak that its operators but collectives reach."""
        prices = self.in_engine(constants)
        own = [(block.count * op.count, op) for block in self.program.blocks for op in block.operators]
        priced = [(count, prices[id(op)]) for count, op in own if not isinstance(op, Collective)]
        work_s = sum((count * price.time_s for count, price in priced), 0.0)
        streaming_s = sum((count * price.memory_s for count, price in priced), 0.0)
        return streaming_s / work_s, sum((count * price.compute_s for count, price in priced), 0.0) / work_s

    def of_group(self, place: int | None) -> "PricedPass":
        """Return the pass with no other operators than those of one group of its batch's several, or of all tokens."""
        return self._with(lambda op: op.group == place)

    def of_all_ranks(self) -> "PricedPass":
        """Return the pass with the operators on tokens of all ranks: experts, and the exchange where all get all."""
        return self._with(
            lambda op: op.module == "experts" and not (isinstance(op, Collective) and op.kind == "all_to_all")
        )

    def sides(self, prices: Prices) -> list[Number]:
        """Return the seconds of devices with attention, of those with experts, and of what travels between both."""
        seconds: list[Number] = [0.0, 0.0, 0.0]
        for count, op in ((block.count, op) for block in self.program.blocks for op in block.operators):
            side = (op.module in WITH_EXPERTS) * (1 + isinstance(op, Collective))
            seconds[side] = seconds[side] + count * op.count * prices[id(op)].time_s
        return seconds

    def _with(self, chosen: Callable[[Operator], bool]) -> "PricedPass":
        return replace(self, program=of_operators(self.program, chosen))

    def times(self, prices: Prices) -> PassTimes:
        """Return the seconds of the pass, as if one device (with its tensor-parallel peers) held all layers."""
        blocks = self.program.blocks
        return sum_of_passes(
            [float(block.count) for block in blocks], [operator_times(block.operators, prices) for block in blocks]
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


def schedules_ahead(plan: GenerationPlan, model: Model) -> bool:
    """Return whether iterations are scheduled while the ones before them run.

    Drafts that come from the host, as n-grams do, need the tokens of the iteration before.
    """
    drafts = plan.engine.serving.drafts_ahead and bool(model.prediction_layers)
    return bool(plan.async_scheduling) and (plan.speculative is None or drafts)


@record
class Worker:
    """A replica of an engine. Of its workload only this counts: how tokens are drawn, whether all are alike."""

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

    @property
    def schedules_ahead(self) -> bool:
        """Whether the host's code runs while a device is at the iteration before."""
        return self.ranks.device_model.asynchronous and schedules_ahead(self.plan, self.model)

    def priced(self, batches: Sequence[Batch], group: int | None = None) -> list[PricedPass]:
        """Write a pass of each batch out and price the operators of all together, or those of one ``group`` alone."""
        kernels = [inference_kernels(self.scenario, self.formats, batch) for batch in batches]
        keys = [_key(x, self.ranks, group) for x in kernels]
        found = [None if key is None else _PASSES.get(key) for key in keys]
        unknown = iter(_priced([x for x, one in zip(kernels, found, strict=True) if one is None], self.ranks, group))
        passes = [one or next(unknown) for one in found]
        for key, one in zip(keys, passes, strict=True):
            if key is not None:
                _PASSES.put(key, one)
        return passes


_PASSES: Results[PricedPass] = Results(entries=512, kind="blocks")


def _key(kernels: InferenceKernels, ranks: Ranks, group: int | None) -> Hashable:
    """What a priced pass depends on; None for meshes."""
    try:
        return content((kernels, ranks.cluster, group), largest_array=0)
    except LargeArrayError:
        return None


def _priced(kernels: Sequence[InferenceKernels], ranks: Ranks, group: int | None) -> list[PricedPass]:
    """Passes written out and priced together."""
    programs = [write(x) for x in kernels]
    # Where launches are synchronous, what an operator takes hangs on those before it.
    if group is not None and ranks.device_model.asynchronous:
        programs = [of_operators(program, lambda op: op.group == group) for program in programs]
    prices = price_passes(programs, ranks)
    return [
        PricedPass(
            kernels=x,
            program=program,
            prices={id(op): prices[id(op)] for op in program.operators},
            device_model=ranks.device_model,
        )
        for x, program in zip(kernels, programs, strict=True)
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
    """The ranks that take part in a collective of a pass; devices with experts alone are as far as their last."""
    if ranks == "tensor":
        return tensor_group(plan.tensor_parallel, cluster)
    if ranks == "stages":
        apart = plan.tensor_parallel * plan.data_parallel + larger(plan.expert_devices - 1, 0)
        return pipeline_boundary(1, apart, cluster)
    return data_group(plan.tensor_parallel, plan.data_parallel, cluster)


HOST_OVERLAP = 4.0
"""Exponent of the norm in which the host's launches and the device's work join; infinity would be the maximum."""


@record
class Iteration:
    """Seconds of one iteration."""

    times: PassTimes
    transfer_s: Number
    """Handing activations from pipeline stage to stage."""
    host_s: Number
    """What the device waits for the host."""

    @property
    def pass_s(self) -> Number:
        """All of it."""
        return self.times.device_s + self.transfer_s + self.host_s


def iteration_time(worker: Worker, batch: Batch, constants: InferenceConstants) -> Iteration:
    """Return the seconds of one iteration over a batch: prompts or chunks of them, decoding sequences, or both.

    ``constants`` are the engine's as they are on the worker's cluster (``InferenceConstants.running_on``). Sizes of the
    batch may be arrays; many batches in one call take a fiftieth of the time that they take one by one.
    """
    (priced,) = worker.priced([batch])
    return iteration_of(worker, priced, constants, saved_s=saved_starts_s(worker, batch, constants))


def iteration_of(
    worker: Worker,
    batch: PricedPass,
    constants: InferenceConstants,
    micro_batches: Number = 1.0,
    *,
    saved_s: Number = 0.0,
) -> Iteration:
    """Return the seconds of an iteration over ``micro_batches`` like ``batch``.

    Micro-batches of prompts follow each other through the stages: they fill the pipeline and drain it, (p + m - 1) / p
    passes long. Decoding never ends, so that each micro-batch passes every stage while the others pass the others. The
    engine's own code runs before the device does, or, where it schedules ahead, mostly while the device is at the
    iteration before (``exposed_share``): then code and launches of the host hide, or outlast the device. Kernels that
    groups share save ``saved_s`` of that time.
    """
    m, p, c = micro_batches, worker.plan.pipeline_parallel * 1.0, constants
    groups, times = batch.kernels.batch, _without(device_times(worker, batch, c), saved_s)
    decodes = any(group.decode for group in groups.groups)
    rounds, sends = (1.0, either(p > 1.0, p, 0.0)) if decodes else ((p + m - 1.0) / p, p + m - 2.0)
    launching_s = _launching_s(worker, groups, times, c)
    waits_s = launch_waits_s(launching_s, times.device_s)
    once_s, each_s, intake_s = _scheduling_s(worker, groups, c, m)
    if worker.schedules_ahead:
        own_s = once_s + each_s
        host_s = larger(own_s + launching_s - times.device_s - waits_s, c.exposed_share * own_s) + sum(intake_s)
    else:
        host_s = larger(once_s, intake_s[0]) + each_s + intake_s[1]
    return Iteration(
        times=times.times(rounds),
        transfer_s=sends * handover_s(worker, batch, c),
        host_s=host_s + waits_s + c.handover_s * (p - 1.0),
    )


def device_times(worker: Worker, batch: PricedPass, constants: InferenceConstants) -> PassTimes:
    """Return the times of a pass on its device, drafts included: of all its operators, or of those that it has left."""
    prices = batch.in_engine(constants)
    times = _with_drafts(worker, batch, prices, batch.times(prices))
    return _in_turns(worker, batch, prices, _with_long_prompts(batch, times, constants))


def _in_turns(worker: Worker, batch: PricedPass, prices: Prices, times: PassTimes) -> PassTimes:
    """The times of a decode step whose micro-batches devices with attention and others with experts take in turns.

    If one spends ``a`` and ``f`` seconds there and ``c`` on both ways, ``m`` take ``max(m max(a, f, c/2), a + f + c)``
    and a layer's share to fill (arXiv 2504.02263, section 4.1), all parts longer alike. Left out: that layers differ.
    """
    m = batch.kernels.batch.in_turns
    if not anywhere(m > 1):
        return times
    attention_s, experts_s, sent_s = batch.sides(prices)
    paced_s, through_s = larger(larger(attention_s, experts_s), sent_s / 2.0), attention_s + experts_s + sent_s
    whole_s = larger(m * paced_s, through_s)
    whole_s = whole_s + (through_s + (m - 1.0) * paced_s - whole_s) / worker.model.layers
    return times.times(whole_s / larger(through_s, 1e-30))._replace(launches=times.launches * m)


def attention_start_s(worker: Worker, constants: InferenceConstants) -> Number:
    """Return the seconds that attention of a single new token takes in all layers: what starting its kernels does."""
    token = prompts(1.0, 1.0)
    (priced,) = worker.priced([Batch.of(token, token)])
    return device_times(worker, priced.of_group(0), constants).device_s


def saved_starts_s(worker: Worker, batch: Batch, constants: InferenceConstants) -> Number:
    """Return the starts that are priced for each group, though one kernel serves all prompts, or even all groups."""
    decodes = sum(group.decode for group in batch.groups)
    saved = len(batch.groups) - decodes - 1 + (decodes > 0 and worker.plan.engine.kernels.joins_attention)
    if saved < 1 or decodes == len(batch.groups):
        return 0.0
    return saved * attention_start_s(worker, constants)


def _without(times: PassTimes, saved_s: Number) -> PassTimes:
    """The times of a pass whose operators take so much less."""
    share = 1.0 - saved_s / times.work_s
    return times._replace(compute_s=times.compute_s * share, memory_s=times.memory_s * share)


def tokens_per_pass(plan: GenerationPlan, decode: Batch) -> Number:
    """Return the tokens that a decode pass yields per sequence."""
    if plan.speculative is None:
        return 1.0
    return either(decode.groups[0].new_tokens > 1.0, plan.speculative.tokens_per_pass, 1.0)


def _with_drafts(worker: Worker, decode: PricedPass, prices: Prices, times: PassTimes) -> PassTimes:
    """Return the times of a decode pass with those of a prediction layer that drafts token by token.

    Each draft takes a layer and the head for one token of every sequence: its share of what all tokens of the pass
    take, and at least what its weights and cache take from memory, which every draft reads again.
    """
    batch = decode.kernels.batch
    decoding = [group.tokens for group in batch.groups if group.decode]
    if worker.plan.speculative is None or not worker.model.prediction_layers or not decoding:
        return times
    new: Number = next(group.new_tokens for group in batch.groups if group.decode)
    blocks = (decode.program.layers[-1], decode.program.head)
    share = sum(decoding) / batch.tokens / new
    operators = [op for block in blocks for op in block.operators]
    prices_of_draft = {id(op): _of_a_draft(prices[id(op)], share) for op in operators}
    return sum_of_passes((1.0, new - 1.0), (times, operator_times(operators, prices_of_draft)))


def _of_a_draft(cost: OperatorCost, share: Number) -> OperatorCost:
    """The price of an operator for ``share`` of a pass's tokens."""
    return cost._replace(time_s=larger(cost.time_s * share, smaller(cost.memory_s, cost.least_s)))


def _with_long_prompts(batch: PricedPass, times: PassTimes, c: InferenceConstants) -> PassTimes:
    """The times of a pass whose collectives slow down with prompts beyond a length."""
    groups = [group for group in batch.kernels.batch.groups if not group.decode]
    if c.long_prefill_slowdown == 1.0 or not groups:
        return times
    tokens = sum(group.tokens for group in groups)
    beyond = larger(1.0 - LONG_PREFILL_TOKENS / tokens, 0.0) * (batch.kernels.t > 2)
    slowdown = 1.0 + beyond * (c.long_prefill_slowdown - 1.0)
    return times._replace(collective_s=times.collective_s * slowdown)


def _scheduling_s(
    worker: Worker, batch: Batch, c: InferenceConstants, m: Number
) -> tuple[Number, Number, tuple[Number, Number]]:
    """Seconds of the engine's own code: once per iteration, for its sequences, and once and for the tokens of prompts.

    In vLLM this is one thread: it schedules, updates the persistent batch and its metadata, and hands tokens out
    (``EngineCore.step_with_batch_queue``); tokenizing and detokenizing are the server's.
    """
    plan = worker.plan
    iteration_s, sequence_s = iteration_host_s(plan, c), c.sequence_s
    once_s: Number = 0.0
    each_s: Number = 0.0
    prefill_s: Number = 0.0
    tokens_s: Number = 0.0
    for group in batch.groups:
        if group.decode:
            drafts = 0.0 if plan.speculative is None else 1.0 * (group.new_tokens > 1.0)
            once_s = iteration_s + drafts * c.drafting_s
            each_s = each_s + (sequence_s + drafts * c.drafted_sequence_s) * (group.count * m)
        else:
            starts = 1.0 * (group.new_tokens > 1.0) if plan.engine.lmdeploy.decodes_single_tokens else 1.0
            prefill_s = larger(prefill_s, c.prefill_s * starts)
            tokens_s = tokens_s + c.prompt_token_s * group.tokens * m
    return once_s, each_s, (prefill_s, tokens_s)


def intake_s(worker: Worker, batch: PricedPass, c: InferenceConstants, m: Number) -> Number:
    """Return the seconds of an iteration in which prompts are taken in beside an engine that schedules ahead; else 0.

    A process of its own tokenizes them, which none but their users wait for (vLLM 0.11 ``AsyncLLM``, SGLang 0.5
    ``TokenizerManager``).
    """
    return sum(_scheduling_s(worker, batch.kernels.batch, c, m)[2]) if worker.schedules_ahead else 0.0


def iteration_host_s(plan: GenerationPlan, c: InferenceConstants) -> Number:
    """Return the host's seconds per iteration, whatever is in it."""
    return c.iteration_s + c.worker_s * (plan.tensor_parallel * plan.pipeline_parallel - 1.0)


def launch_time_s(plan: GenerationPlan, c: InferenceConstants) -> Number:
    """Return the host's seconds per kernel of a pass that no graph holds."""
    return c.launch_s if plan.cuda_graphs or not plan.engine.kernels.python_launches else c.eager_launch_s


def _launching_s(worker: Worker, batch: Batch, times: PassTimes, c: InferenceConstants) -> Number:
    """Seconds in which the host launches a pass kernel by kernel; none from captured graphs."""
    plan, device = worker.plan, worker.scenario.cluster.device
    captured = batch.tokens <= plan.captured_tokens(worker.model, device, decode=batch.decode)
    return either(captured, 0.0, launch_time_s(plan, c) * times.launches)


def launch_waits_s(launching_s: Number, device_s: Number) -> Number:
    """Return the seconds by which launching kernel by kernel outlasts the device.

    Where both need about as long, now one waits and now the other, so they join in a norm and not in a plain maximum.
    """
    joined_s = (launching_s**HOST_OVERLAP + device_s**HOST_OVERLAP) ** (1.0 / HOST_OVERLAP)
    return either(launching_s == 0.0, 0.0, joined_s - device_s)


def handover_s(worker: Worker, batch: PricedPass, constants: InferenceConstants) -> Number:
    """Return the seconds of a pipeline boundary's activations, over links or through the host; 0 without a pipeline."""
    decodes = any(group.decode for group in batch.kernels.batch.groups)
    over_host = bool(worker.plan.engine.llama_cpp.copies_over_host) and not decodes
    pipelined = worker.plan.pipeline_parallel > 1
    if not anywhere(pipelined):
        return 0.0
    boundary = batch.program.boundary
    if over_host:
        sent = sum(op.network_bytes for op in boundary)
        return either(pipelined, sent / constants.host_copy_bandwidth, 0.0)
    return seconds_of(boundary, price(boundary, worker.ranks))
