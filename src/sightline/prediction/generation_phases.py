"""Seconds of prefill and of a decode step under an engine: device work, hand-overs between stages, the host.

Legend: ``p`` pipeline stages, ``m`` micro-batches that fill them.
"""

from dataclasses import dataclass, replace

import numpy as np

from sightline.cost.collectives.collective import collective_time
from sightline.cost.collectives.groups import pipeline_boundary
from sightline.prediction.engine_constants import LONG_PREFILL_TOKENS, InferenceConstants
from sightline.prediction.generation_pricing import PricedGeneration
from sightline.prediction.inference_pass import PassTimes, block_times, pass_times
from sightline.program import InferenceKernels
from sightline.quantities import Number

HOST_OVERLAP = 4.0
"""Exponent of the norm in which the host's launches and the device's work join; infinity would be the maximum."""
LAUNCH_QUEUE = 1024.0
"""Kernels that wait on a device before the next launch waits for one of them to start: the depth of CUDA's queue."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Phase:
    """One phase: the seconds of a pass, and how many passes a batch needs."""

    times: PassTimes
    transfer_s: Number
    """Seconds of handing activations from pipeline stage to stage, per pass."""
    host_s: Number
    """Seconds per pass that the device waits for the host."""
    passes: Number

    @property
    def pass_s(self) -> Number:
        """Seconds of one pass."""
        return self.times.device_s + self.transfer_s + self.host_s


def prefill_phase(priced: PricedGeneration, constants: InferenceConstants) -> Phase:
    """Prompts through all stages; micro-batches fill the pipeline and drain it: (p + m - 1) / p passes long."""
    plan, x = priced.scenario.plan, priced.prompt
    times = pass_times(priced.prefill, priced.prices, constants)
    if constants.long_prefill_slowdown != 1.0:
        beyond = np.maximum(1.0 - LONG_PREFILL_TOKENS / x.tokens, 0.0) * np.greater(x.t, 2)
        slowdown = 1.0 + beyond * (constants.long_prefill_slowdown - 1.0)
        times = replace(times, collective_s=times.collective_s * slowdown)
    p = plan.pipeline_parallel * 1.0
    m = priced.chunks.micro_batches
    waits_s = _waits_s(times, constants)
    prefill_s: Number = constants.prefill_s
    if plan.engine.lmdeploy.decodes_single_tokens:
        prefill_s = prefill_s * np.greater(x.q, 1.0)
    return Phase(
        times=times * ((p + m - 1.0) / p),
        transfer_s=(p + m - 2.0) * _prompt_handover_s(priced, constants),
        host_s=prefill_s + constants.handover_s * (p - 1.0) + constants.prompt_token_s * x.tokens * m + waits_s,
        passes=_passes_in_turn(priced, times.launches),
    )


def _passes_in_turn(priced: PricedGeneration, launches: Number) -> Number:
    """Passes until every prompt is processed: (p + n - 1) / p of n where they follow each other through equal stages.

    One thread launches all stages' kernels, and the next pass only once the last stage's queue took the one before.
    With room for ``c`` passes in a queue, ``f = floor(c) + 1`` of them are on their way before the host waits until the
    last stage is through with all but ``c`` of them, ``p - 1 + f - c`` stages after the first of them began. A queue
    that does not hold a stage's kernels leaves next to nothing of the overlap: 4-bit weights of 80 layers on two or
    four devices gain 8 % from a second piece, not 38 %. The head counts as a layer where these are dealt out, so that
    the stage that sets the pace has up to one more than its share.
    """
    plan, n = priced.scenario.plan, priced.chunks.passes
    if not plan.engine.llama_cpp.pipelines_chunks:
        return n
    p = plan.pipeline_parallel * 1.0
    kernels = launches + plan.engine.llama_cpp.joined_kernels * priced.scenario.model.layers
    room = LAUNCH_QUEUE * p / kernels
    together = np.floor(room) + 1.0
    group = np.maximum(together, p - 1.0 + together - room)
    begun = np.floor((n - 1.0) / together) * group + (n - 1.0) % together
    layers = priced.scenario.model.layers
    longest = np.where(p > 1.0, np.ceil((layers + 1.0) / p) / layers, 1.0)
    return begun * longest + 1.0


def decode_phase(priced: PricedGeneration, constants: InferenceConstants) -> Phase:
    """A step of all sequences: each micro-batch passes every stage once."""
    scenario, x = priced.scenario, priced.step
    plan, speculative = scenario.plan, scenario.plan.speculative
    times = pass_times(priced.decode, priced.prices, constants)
    if speculative is not None and scenario.model.prediction_layers:
        # A prediction layer drafts token by token: a layer and the head, each for one token of every sequence.
        blocks = (priced.decode.layers[-1], priced.decode.head)
        for block in blocks:
            drafted = block_times(block.operators, priced.prices, constants)
            times = times + drafted * (speculative.tokens / (1.0 + speculative.tokens))
    waits_s = 0.0 if plan.cuda_graphs else _waits_s(times, constants)
    p = plan.pipeline_parallel * 1.0
    sequences = x.b * priced.step_parts
    iteration_s, sequence_s = constants.iteration_s, constants.sequence_s
    if speculative is not None:
        iteration_s, sequence_s = iteration_s + constants.drafting_s, sequence_s + constants.drafted_sequence_s
    return Phase(
        times=times,
        transfer_s=np.where(p > 1.0, p, 0.0) * _handover_s(priced, x),
        host_s=iteration_s + constants.handover_s * (p - 1.0) + sequence_s * sequences + waits_s,
        passes=np.maximum(scenario.workload.output_tokens - 1.0, 0.0) / tokens_per_pass(priced),
    )


def _waits_s(times: PassTimes, constants: InferenceConstants) -> Number:
    """Seconds by which launching kernel by kernel outlasts the device.

    Where both need about as long, now one waits and now the other, so they join in a norm and not in a plain maximum.
    """
    host_s, device_s = constants.launch_s * times.launches, times.device_s
    return (host_s**HOST_OVERLAP + device_s**HOST_OVERLAP) ** (1.0 / HOST_OVERLAP) - device_s


def tokens_per_pass(priced: PricedGeneration) -> Number:
    """Tokens a decode pass yields per sequence."""
    speculative = priced.scenario.plan.speculative
    return 1.0 if speculative is None else speculative.tokens_per_pass


def _prompt_handover_s(priced: PricedGeneration, constants: InferenceConstants) -> Number:
    """Seconds of a pipeline boundary's activations of prompts, through the host where the engine takes that way."""
    x, plan = priced.prompt, priced.scenario.plan
    if not plan.engine.llama_cpp.copies_over_host:
        return _handover_s(priced, x)
    return np.where(np.greater(plan.pipeline_parallel, 1), x.hidden_bytes / x.t / constants.host_copy_bandwidth, 0.0)


def _handover_s(priced: PricedGeneration, x: InferenceKernels) -> Number:
    """Seconds of a pipeline boundary's activations; 0 without a pipeline."""
    ranks, plan = priced.ranks, priced.scenario.plan
    if not np.any(np.greater(priced.scenario.plan.pipeline_parallel, 1)):
        return 0.0
    group = pipeline_boundary(plan.tensor_parallel, plan.data_parallel, ranks.cluster)
    sent = x.hidden_bytes / x.t
    return collective_time("send_recv", sent, group=group, cluster=ranks.cluster, constants=ranks.library)
