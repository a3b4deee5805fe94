"""A generation's two passes, written out and priced together: the prefill of prompts and a step of decoding.

Legend: ``b`` sequences of a data-parallel rank, ``q`` new tokens of each, ``c`` tokens before them, ``p`` pipeline stages.
"""

from dataclasses import dataclass

import numpy as np

from sightline.cost.collective_families import cluster_collectives
from sightline.cost.collectives import collective_time, pipeline_boundary
from sightline.cost.inference_constants import InferenceConstants, load_inference
from sightline.cost.pass_pricing import Ranks
from sightline.cost.pricing import Prices
from sightline.prediction.inference_pass import PassTimes, block_times, pass_times, price_passes
from sightline.program.formats import Formats, formats_of
from sightline.program.inference import Pass, PassShapes, write_pass
from sightline.quantities import Number
from sightline.scenario import GenerationPlan, GenerationScenario


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunks:
    """How prompts are cut into passes."""

    sequences: Number
    """Prompts that a pass takes at once."""
    new_tokens: Number
    """Tokens of each that it takes."""
    context_tokens: Number
    """Mean tokens of each that were processed before."""
    passes: Number
    """Passes until every prompt is processed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Phase:
    """One phase, priced: the pass it repeats, its seconds, and how often it runs for the batch."""

    of: Pass
    times: PassTimes
    transfer_s: Number
    """Seconds of handing activations from pipeline stage to stage, per pass."""
    host_s: Number
    """Seconds per pass that the device waits for the host."""
    count: Number

    @property
    def pass_s(self) -> Number:
        """Seconds of one pass."""
        return self.times.device_s + self.transfer_s + self.host_s


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Priced:
    """Prefill and decode of a scenario with the prices of their operators."""

    scenario: GenerationScenario
    formats: Formats
    constants: InferenceConstants
    evidence: str
    prices: Prices
    prefill: Phase
    decode: Phase


def price_generation(scenario: GenerationScenario, constants: InferenceConstants | None = None) -> Priced:
    """Write both passes of the scenario out and price their operators together."""
    plan, work, engine = scenario.plan, scenario.workload, scenario.plan.engine
    evidence = "given"
    if constants is None:
        constants, evidence = load_inference(engine.name, engine.version)
    device = scenario.cluster.device
    formats = formats_of(scenario.model, plan.quantization, plan.dtype, device, whole_model=engine.quantizes_head)
    sequences = _rank_sequences(scenario)
    chunks = cut(scenario, sequences)
    prompt = _shapes(scenario, formats, chunks.sequences, chunks.new_tokens, chunks.context_tokens, decode=False)
    drafted = 0.0 if plan.speculative is None else plan.speculative.tokens
    mean_context = work.prompt_tokens + work.output_tokens / 2.0
    step = _shapes(
        scenario, formats, sequences / _micro_batches(plan, sequences), 1.0 + drafted, mean_context, decode=True
    )
    ranks = Ranks(
        cluster=scenario.cluster,
        tensor_parallel=plan.tensor_parallel,
        data_parallel=plan.data_parallel,
        library=cluster_collectives(scenario.cluster, all_reduce=engine.all_reduce),
        constants=constants,
    )
    passes = [write_pass(prompt), write_pass(step)]
    prices = price_passes(passes, ranks, mesh_axes(scenario))
    return Priced(
        scenario=scenario,
        formats=formats,
        constants=constants,
        evidence=evidence,
        prices=prices,
        prefill=_prefill(passes[0], prompt, chunks, prices, ranks, plan),
        decode=_decode(passes[1], step, prices, ranks, scenario),
    )


def mesh_axes(scenario: GenerationScenario) -> int:
    """Number of axes that sizes, degrees and the device's numbers span; 0 for a single question."""
    plan, work, d = scenario.plan, scenario.workload, scenario.cluster.device
    degrees = (plan.tensor_parallel, plan.pipeline_parallel, plan.data_parallel, plan.expert_parallel, plan.replicas)
    sizes = (work.batch, work.prompt_tokens, work.output_tokens, work.prefix_tokens)
    rates = (*d.peak_flops.values(), d.memory_bandwidth, d.vector_flops, d.l2_bandwidth, d.l2_bytes, d.compute_units)
    return max(np.ndim(x) for x in (*degrees, *sizes, *rates))


def cut(scenario: GenerationScenario, sequences: Number) -> Chunks:
    """Return how a rank's prompts are cut: whole where the token budget holds them, else in equal chunks.

    In a steady loop prompts arrive one by one; then one prompt is counted.
    """
    plan, work = scenario.plan, scenario.workload
    reused = work.prefix_tokens * 1.0 if plan.prefix_cache else 0.0
    new = np.maximum(work.prompt_tokens - reused, 1.0)
    waiting: Number = 1.0 if work.continuous else sequences
    waiting = np.maximum(waiting / _micro_batches(plan, waiting), 1.0)
    if plan.max_batched_tokens is None:
        return Chunks(sequences=waiting, new_tokens=new, context_tokens=reused, passes=1.0)
    pieces = np.ceil(new / plan.max_batched_tokens) if plan.chunked_prefill else 1.0
    piece = new / pieces
    together = np.clip(np.floor(plan.max_batched_tokens / piece), 1.0, waiting)
    rounds = np.ceil(waiting / together)
    return Chunks(
        sequences=waiting / rounds,
        new_tokens=piece,
        context_tokens=reused + (new - piece) / 2.0,
        passes=pieces * rounds,
    )


def _rank_sequences(scenario: GenerationScenario) -> Number:
    """Sequences of the busiest data-parallel rank."""
    plan = scenario.plan
    share: Number = np.ceil(scenario.workload.batch / (plan.data_parallel * plan.replicas))
    return share


def _micro_batches(plan: GenerationPlan, sequences: Number) -> Number:
    """Parts a rank's batch is cut into so that all pipeline stages work at once."""
    if not plan.engine.pipeline_micro_batches:
        return 1.0
    parts: Number = np.minimum(plan.pipeline_parallel, np.maximum(sequences, 1.0)) * 1.0
    return parts


def _shapes(
    scenario: GenerationScenario, formats: Formats, b: Number, q: Number, c: Number, *, decode: bool
) -> PassShapes:
    plan = scenario.plan
    return PassShapes(
        model=scenario.model,
        engine=plan.engine,
        formats=formats,
        dtype="bf16" if plan.dtype == "fp8" else plan.dtype,
        element_bytes=formats.operands[formats.plain].activation_bytes,
        b=b,
        q=q,
        c=c,
        t=plan.tensor_parallel * 1.0,
        d=plan.data_parallel * 1.0,
        e=plan.expert_parallel * 1.0,
        skew=plan.expert_skew,
        decode=decode,
        logits=q if decode else 1.0,
    )


def _prefill(of: Pass, x: PassShapes, chunks: Chunks, prices: Prices, ranks: Ranks, plan: GenerationPlan) -> Phase:
    """Prompts through all stages; micro-batches fill the pipeline and drain it."""
    constants = ranks.constants
    times = pass_times(of, prices, constants)
    stages, parts = plan.pipeline_parallel * 1.0, _micro_batches(plan, chunks.sequences * plan.pipeline_parallel)
    host_s = constants.prefill_s + constants.prompt_token_s * x.tokens * parts
    waits_s = np.maximum(constants.launch_s * times.launches - times.device_s, 0.0)
    return Phase(
        of=of,
        times=times * ((stages + parts - 1.0) / stages),
        transfer_s=(stages + parts - 2.0) * _handover_s(x, ranks),
        host_s=host_s + waits_s,
        count=chunks.passes,
    )


def _decode(of: Pass, x: PassShapes, prices: Prices, ranks: Ranks, scenario: GenerationScenario) -> Phase:
    """A step of all sequences: each micro-batch passes every stage once."""
    plan, constants, speculative = scenario.plan, ranks.constants, scenario.plan.speculative
    times = pass_times(of, prices, constants)
    if speculative is not None and scenario.model.prediction_layers:
        # A prediction layer drafts one token at a time: a layer and the head, for one token of each sequence.
        draft = block_times(of.layers[-1].operators, prices, constants) + block_times(
            of.head.operators, prices, constants
        )
        times = times + draft * (speculative.tokens / (1.0 + speculative.tokens))
    waits_s = 0.0 if plan.cuda_graphs else np.maximum(constants.launch_s * times.launches - times.device_s, 0.0)
    stages = plan.pipeline_parallel * 1.0
    tokens = 1.0 if speculative is None else speculative.tokens_per_pass
    return Phase(
        of=of,
        times=times,
        transfer_s=stages * _handover_s(x, ranks) * (stages > 1),
        host_s=constants.iteration_s + constants.sequence_s * x.b * _micro_batches(plan, x.b * stages) + waits_s,
        count=np.maximum(scenario.workload.output_tokens - 1.0, 0.0) / tokens,
    )


def _handover_s(x: PassShapes, ranks: Ranks) -> Number:
    """Seconds of a pipeline boundary's activations."""
    group = pipeline_boundary(ranks.tensor_parallel, ranks.data_parallel, ranks.cluster)
    sent = x.hidden_bytes / x.t
    return collective_time("send_recv", sent, group=group, cluster=ranks.cluster, constants=ranks.library)
