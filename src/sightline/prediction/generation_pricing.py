"""A generation's two passes, written out and priced together: the prefill of prompts and a step of decoding.

Legend: ``b`` sequences of a data-parallel rank, ``q`` new tokens of each, ``c`` tokens before them.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from sightline.cost.collectives.families import cluster_collectives
from sightline.cost.collectives.groups import Group, data_group, tensor_group
from sightline.cost.device_model import Kernels, device_model
from sightline.cost.prices import Prices
from sightline.cost.ranks import Ranks
from sightline.prediction.generation_micro_batches import micro_batches
from sightline.prediction.inference_pass import price_passes
from sightline.program import Batch, InferenceKernels, Program, decoding, inference_kernels, prompts, write
from sightline.program.formats import Formats, formats_of
from sightline.program.matmul_formats import HALF_SUMS
from sightline.quantities import Number
from sightline.scenario import Cluster, GenerationPlan, GenerationScenario

TOGETHER = 0.25
"""Share of a full pass in which prompts of equal length come: successors of sequences that ended in one step meet the
next step in part, the rest the one after it, and groups part and join again. Fitted to steady loops of TensorRT-LLM."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunks:
    """How prompts are cut into passes."""

    prompts: Number
    """Prompts that wait together."""
    sequences: Number
    """Prompts that a pass takes at once."""
    new_tokens: Number
    """Tokens of each that it takes."""
    context_tokens: Number
    """Mean tokens of each that were processed before."""
    passes: Number
    """Passes until all of them are processed."""
    micro_batches: Number
    """Such passes that fill the pipeline one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PricedGeneration:
    """Both passes of a scenario with the prices of their operators, whatever engine runs them."""

    scenario: GenerationScenario
    formats: Formats
    ranks: Ranks
    chunks: Chunks
    prompt: InferenceKernels
    step: InferenceKernels
    step_parts: Number
    """Micro-batches that a step is cut into."""
    prefill: Program
    decode: Program
    prices: Prices


def price_generation(scenario: GenerationScenario) -> PricedGeneration:
    """Write both passes of the scenario out and price their operators together."""
    plan, work, engine = scenario.plan, scenario.workload, scenario.plan.engine
    device = scenario.cluster.device
    in_fp16 = engine.llama_cpp.sums_in_fp16 and plan.dtype == "fp16" and HALF_SUMS in device.peak_flops
    formats = formats_of(
        scenario.model,
        plan.quantization,
        HALF_SUMS if in_fp16 else plan.dtype,
        device,
        whole_model=engine.kernels.quantizes_head,
    ).with_weight_bytes(engine.kernels.weight_bytes)
    sequences = _rank_sequences(scenario)
    chunks = cut(scenario, sequences)
    prompt = inference_kernels(
        scenario, formats, Batch.of(prompts(chunks.sequences, chunks.new_tokens, chunks.context_tokens))
    )
    drafted = 0.0 if plan.speculative is None else plan.speculative.tokens
    context = work.prompt_tokens + work.output_tokens / 2.0
    parts = micro_batches(plan, sequences, 1.0 + drafted)
    step = inference_kernels(scenario, formats, Batch.of(decoding(sequences / parts, context, 1.0 + drafted)))
    ranks = Ranks(
        device_model=device_model(
            device,
            Kernels(stream_generation=engine.kernels.stream_kernels, eager=engine.kernels.eager, dtype=prompt.dtype),
        ),
        cluster=scenario.cluster,
        group=partial(_group, plan=plan, cluster=scenario.cluster),
        library=cluster_collectives(
            scenario.cluster,
            all_reduce=engine.all_reduce_library,
            whole_domain=engine.collectives.reduces_over_domain,
            block_bandwidth=engine.collectives.block_bandwidth,
        ),
    )
    prefill, decode = write(prompt), write(step)
    prices = price_passes([prefill, decode], ranks)
    return PricedGeneration(
        scenario=scenario,
        formats=formats,
        ranks=ranks,
        chunks=chunks,
        prompt=prompt,
        step=step,
        step_parts=parts,
        prefill=prefill,
        decode=decode,
        prices=prices,
    )


def _group(ranks: str, plan: GenerationPlan, cluster: Cluster) -> Group:
    """The ranks that take part in a collective of a pass."""
    if ranks == "tensor":
        return tensor_group(plan.tensor_parallel, cluster)
    return data_group(plan.tensor_parallel, plan.data_parallel, cluster)


def cut(scenario: GenerationScenario, sequences: Number) -> Chunks:
    """Return how a rank's prompts are cut: whole where the token budget holds them, else in equal chunks.

    In a steady loop prompts arrive as sequences end: of each step's, at least one waits. Sequences of equal length that
    were prefilled in one pass end in one step, so that their successors come in groups (``TOGETHER``).
    """
    plan, work = scenario.plan, scenario.workload
    reused = work.prefix_tokens * 1.0 if plan.prefix_cache else 0.0
    new = np.maximum(work.prompt_tokens - reused, 1.0)
    arriving: Number = sequences / work.output_tokens if work.continuous else sequences
    if work.continuous and work.equal_lengths and plan.max_batched_tokens is not None:
        arriving = np.minimum(sequences, np.maximum(np.floor(plan.max_batched_tokens / new * TOGETHER), arriving))
    parts = micro_batches(plan, arriving, new)
    waiting = np.maximum(arriving / parts, 1.0)
    if plan.max_batched_tokens is None:
        return Chunks(
            prompts=waiting,
            sequences=waiting,
            new_tokens=new,
            context_tokens=reused,
            passes=1.0,
            micro_batches=parts,
        )
    pieces = np.ceil(new / plan.max_batched_tokens) if plan.chunked_prefill else 1.0
    piece = new / pieces
    together = np.clip(np.floor(plan.max_batched_tokens / piece), 1.0, waiting)
    rounds = np.ceil(waiting / together)
    return Chunks(
        prompts=waiting,
        sequences=waiting / rounds,
        new_tokens=piece,
        context_tokens=reused + (new - piece) / 2.0,
        passes=pieces * rounds,
        micro_batches=parts,
    )


def _rank_sequences(scenario: GenerationScenario) -> Number:
    """Sequences of the busiest data-parallel rank."""
    plan = scenario.plan
    share: Number = np.ceil(scenario.workload.batch / (plan.data_parallel * plan.replicas))
    return share
