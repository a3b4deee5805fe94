"""Seconds of one iteration of an engine: a batch through all pipeline stages, on its devices and on the host.

A pure function of the engine's replica and the batch, for plain numbers and arrays. Prefill, decoding and steady loops
are made of iterations. With speculative decoding a pass verifies drafted tokens (arXiv 2211.17192), which a prediction
layer may draft. Legend: ``p`` pipeline stages, ``m`` micro-batches that fill them.
"""

from dataclasses import dataclass

from sightline.cost.operator_cost import OperatorCost
from sightline.cost.prices import Prices, price
from sightline.prediction.generation.engine_constants import LONG_PREFILL_TOKENS, InferenceConstants
from sightline.prediction.generation.worker import PricedPass, Worker
from sightline.prediction.pass_times import PassTimes, operator_times, seconds_of, sum_of_passes
from sightline.program import Batch
from sightline.quantities import Number, anywhere, either, larger, smaller
from sightline.scenario import GenerationPlan

HOST_OVERLAP = 4.0
"""Exponent of the norm in which the host's launches and the device's work join; infinity would be the maximum."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
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
    return iteration_of(worker, priced, constants)


def iteration_of(
    worker: Worker, batch: PricedPass, constants: InferenceConstants, micro_batches: Number = 1.0
) -> Iteration:
    """Return the seconds of an iteration over ``micro_batches`` like ``batch``.

    Micro-batches of prompts follow each other through the stages: they fill the pipeline and drain it, (p + m - 1) / p
    passes long. Decoding never ends, so that each micro-batch passes every stage while the others pass the others.
    """
    m, p, c = micro_batches, worker.plan.pipeline_parallel * 1.0, constants
    asked, prices = batch.kernels.batch, batch.in_engine(c)
    decodes = [group for group in asked.groups if group.decode]
    times = _with_drafts(worker, batch, prices, batch.times(prices))
    times = _with_long_prompts(batch, times, c)
    copied = bool(worker.plan.engine.llama_cpp.copies_over_host) and not decodes
    rounds, sends = (1.0, either(p > 1.0, p, 0.0)) if decodes else ((p + m - 1.0) / p, p + m - 2.0)
    graphs = asked.decode and worker.plan.cuda_graphs
    host_s = _scheduling_s(worker, asked, c, m) + c.handover_s * (p - 1.0)
    return Iteration(
        times=times.times(rounds),
        transfer_s=sends * _handover_s(worker, batch, c, over_host=copied),
        host_s=host_s + (0.0 if graphs else launch_waits_s(times, c)),
    )


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
    prompts = [group for group in batch.kernels.batch.groups if not group.decode]
    if c.long_prefill_slowdown == 1.0 or not prompts:
        return times
    tokens = sum(group.tokens for group in prompts)
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


def launch_waits_s(times: PassTimes, constants: InferenceConstants) -> Number:
    """Return the seconds by which launching kernel by kernel outlasts the device.

    Where both need about as long, now one waits and now the other, so they join in a norm and not in a plain maximum.
    """
    host_s, device_s = constants.launch_s * times.launches, times.device_s
    return (host_s**HOST_OVERLAP + device_s**HOST_OVERLAP) ** (1.0 / HOST_OVERLAP) - device_s


def _handover_s(worker: Worker, batch: PricedPass, constants: InferenceConstants, *, over_host: bool) -> Number:
    """Seconds of a pipeline boundary's activations, over links or through the host; 0 without a pipeline."""
    pipelined = worker.plan.pipeline_parallel > 1
    if not anywhere(pipelined):
        return 0.0
    boundary = batch.program.boundary
    if over_host:
        sent = sum(op.network_bytes for op in boundary)
        return either(pipelined, sent / constants.host_copy_bandwidth, 0.0)
    return seconds_of(boundary, price(boundary, worker.ranks))
