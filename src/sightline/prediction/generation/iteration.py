"""Seconds of one iteration of an engine: a batch through all pipeline stages, on its devices and on the host.

A pure function of the engine's replica and the batch, for plain numbers and arrays. Prefill, decoding and steady loops
are made of iterations. With speculative decoding a pass verifies drafted tokens (arXiv 2211.17192), which a prediction
layer may draft. Legend: ``p`` pipeline stages, ``m`` micro-batches that fill them.
"""

from sightline.content import record
from sightline.cost.operator_cost import OperatorCost
from sightline.cost.prices import Prices, price
from sightline.prediction.generation.engine_constants import LONG_PREFILL_TOKENS, InferenceConstants
from sightline.prediction.generation.replica import PricedPass, Worker
from sightline.prediction.pass_times import PassTimes, operator_times, seconds_of, sum_of_passes
from sightline.program import Batch, prompts
from sightline.quantities import Number, anywhere, either, larger, smaller
from sightline.scenario import GenerationPlan

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


def iteration_time(worker: Worker, batch: Batch, constants: InferenceConstants, *, ahead: bool = False) -> Iteration:
    """Return the seconds of one iteration over a batch: prompts or chunks of them, decoding sequences, or both.

    ``constants`` are the engine's as they are on the worker's cluster (``InferenceConstants.running_on``). Sizes of the
    batch may be arrays; many batches in one call take a fiftieth of the time that they take one by one. ``ahead``: the
    engine has scheduled the iteration while the one before it ran, as under load it may.
    """
    (priced,) = worker.priced([batch])
    return iteration_of(worker, priced, constants, saved_s=_saved_starts_s(worker, batch, constants), ahead=ahead)


def iteration_of(
    worker: Worker,
    batch: PricedPass,
    constants: InferenceConstants,
    micro_batches: Number = 1.0,
    *,
    saved_s: Number = 0.0,
    ahead: bool = False,
) -> Iteration:
    """Return the seconds of an iteration over ``micro_batches`` like ``batch``.

    Micro-batches of prompts follow each other through the stages: they fill the pipeline and drain it, (p + m - 1) / p
    passes long. Decoding never ends, so that each micro-batch passes every stage while the others pass the others. The
    engine's own code runs before the device does, or, ``ahead`` of it, while the iteration before does: then only what
    outlasts the device is waited for. Kernels that groups share save ``saved_s`` of the device's time.
    """
    m, p, c = micro_batches, worker.plan.pipeline_parallel * 1.0, constants
    asked, times = batch.kernels.batch, _without(device_times(worker, batch, c), saved_s)
    decodes = any(group.decode for group in asked.groups)
    rounds, sends = (1.0, either(p > 1.0, p, 0.0)) if decodes else ((p + m - 1.0) / p, p + m - 2.0)
    scheduling_s = _scheduling_s(worker, asked, c, m)
    if ahead:
        scheduling_s = larger(scheduling_s - times.device_s, 0.0)
    host_s = scheduling_s + c.handover_s * (p - 1.0)
    return Iteration(
        times=times.times(rounds),
        transfer_s=sends * handover_s(worker, batch, c),
        host_s=host_s + _launch_waits_s(worker.plan, asked, times, c),
    )


def device_times(worker: Worker, batch: PricedPass, constants: InferenceConstants) -> PassTimes:
    """Return the times of a pass on its device, drafts included: of all its operators, or of those that it has left."""
    prices = batch.in_engine(constants)
    times = _with_drafts(worker, batch, prices, batch.times(prices))
    return _with_long_prompts(batch, times, constants)


def attention_start_s(worker: Worker, constants: InferenceConstants) -> Number:
    """Return the seconds that attention of a single new token takes in all layers: what starting its kernels does."""
    token = prompts(1.0, 1.0)
    (priced,) = worker.priced([Batch.of(token, token)])
    return device_times(worker, priced.of_group(0), constants).device_s


def _saved_starts_s(worker: Worker, batch: Batch, constants: InferenceConstants) -> Number:
    """Seconds of starts that are priced for each group, though one kernel serves all prompts, or even all groups."""
    decodes = sum(group.decode for group in batch.groups)
    saved = len(batch.groups) - decodes - 1 + (decodes > 0 and worker.plan.engine.kernels.joins_attention)
    if saved < 1 or decodes == len(batch.groups):
        return 0.0
    return saved * attention_start_s(worker, constants)


def _without(times: PassTimes, saved_s: Number) -> PassTimes:
    """The times of a pass whose operators take so much less."""
    share = 1.0 - saved_s / times.work_s
    return times._replace(compute_s=times.compute_s * share, memory_s=times.memory_s * share)


def drafted_tokens(plan: GenerationPlan) -> Number:
    """Return the tokens that a decode pass verifies per sequence, besides its own."""
    return 0.0 if plan.speculative is None else 1.0 * plan.speculative.tokens


def tokens_per_pass(plan: GenerationPlan) -> Number:
    """Return the tokens that a decode pass yields per sequence."""
    return 1.0 if plan.speculative is None else plan.speculative.tokens_per_pass


def _with_drafts(worker: Worker, decode: PricedPass, prices: Prices, times: PassTimes) -> PassTimes:
    """Return the times of a decode pass with those of a prediction layer that drafts token by token.

    Each draft takes a layer and the head for one token of every sequence: its share of what all tokens of the pass
    take, and at least what its weights and cache take from memory, which every draft reads again.
    """
    speculative, batch = worker.plan.speculative, decode.kernels.batch
    decoding = [group.tokens for group in batch.groups if group.decode]
    if speculative is None or not worker.model.prediction_layers or not decoding:
        return times
    blocks = (decode.program.layers[-1], decode.program.head)
    share = sum(decoding) / batch.tokens / (1.0 + speculative.tokens)
    operators = [op for block in blocks for op in block.operators]
    one = {id(op): _of_a_draft(prices[id(op)], share) for op in operators}
    return sum_of_passes((1.0, 1.0 * speculative.tokens), (times, operator_times(operators, one)))


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


def _scheduling_s(worker: Worker, batch: Batch, c: InferenceConstants, m: Number) -> Number:
    """Seconds of the engine's own code: once per iteration, per token of a prompt, per decoding sequence."""
    plan = worker.plan
    iteration_s, sequence_s = c.iteration_s, c.sequence_s
    if plan.speculative is not None:
        iteration_s, sequence_s = iteration_s + c.drafting_s, sequence_s + c.drafted_sequence_s
    once_s: Number = 0.0
    each_s: Number = 0.0
    for group in batch.groups:
        if group.decode:
            once_s = larger(once_s, iteration_s)
            each_s = each_s + sequence_s * (group.count * m)
        else:
            starts = 1.0 * (group.new_tokens > 1.0) if plan.engine.lmdeploy.decodes_single_tokens else 1.0
            once_s = larger(once_s, c.prefill_s * starts)
            each_s = each_s + c.prompt_token_s * group.tokens * m
    return once_s + each_s


def _launch_waits_s(plan: GenerationPlan, batch: Batch, times: PassTimes, c: InferenceConstants) -> Number:
    """Seconds that the device waits for launches: none in captured graphs, as of few tokens those with prompts are."""
    if not plan.cuda_graphs:
        return launch_waits_s(times, c)
    if batch.decode:
        return 0.0
    return either(batch.tokens <= plan.engine.kernels.captured_tokens, 0.0, launch_waits_s(times, c))


def launch_waits_s(times: PassTimes, constants: InferenceConstants) -> Number:
    """Return the seconds by which launching kernel by kernel outlasts the device.

    Where both need about as long, now one waits and now the other, so they join in a norm and not in a plain maximum.
    """
    host_s, device_s = constants.launch_s * times.launches, times.device_s
    return (host_s**HOST_OVERLAP + device_s**HOST_OVERLAP) ** (1.0 / HOST_OVERLAP) - device_s


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
