"""The memory ledger of generation: weights, cache and what a pass needs, on the fullest device."""

from collections.abc import Iterable, Mapping
from functools import partial, reduce

from sightline.prediction.generation.phases import PricedGeneration
from sightline.prediction.generation.replica import WITH_EXPERTS
from sightline.prediction.training.memory import Ledger, fullest, parts_of, terms_of
from sightline.profile import NumbersOnDemand
from sightline.program import GroupedMatmul, Matmul, Operator, Program
from sightline.program.blocks.layer import cached_bytes
from sightline.quantities import Count, Number, added_up, anywhere, larger, rounded_up, smaller
from sightline.scenario import Generate, GenerationPlan, GenerationScenario

LIVE_ACTIVATIONS = 3.0
"""Hidden-wide activations that are live together with the widest one: the residual stream, a norm's output, a block's
output."""


def generation_memory(
    decoding: PricedGeneration, prefilling: PricedGeneration, work: Generate, *, experts: bool = True
) -> NumbersOnDemand:
    """Return bytes by part, with ``total``, of the device that holds most when all sequences of ``work`` are there.

    Weights are those that a pass's matmuls read, adapters, and the embedding; each pipeline stage holds its share of
    the layers, the last the head. The cache holds every sequence to its last token, in whole blocks; that of workers
    that only prefill holds the prompts of a pass. Left out: such workers on devices of another kind, which have another
    limit, and, unless ``experts``, devices that hold experts alone.
    """
    activations, sequences = _activations(prefilling), _of_a_rank(decoding.scenario.plan, work)
    stages = _stages(decoding, decoding.decode.program, sequences, work.prompt_tokens + work.output_tokens, activations)
    if prefilling is not decoding and prefilling.scenario.cluster is decoding.scenario.cluster:
        waiting = prefilling.scenario.workload
        own = _of_a_rank(prefilling.scenario.plan, waiting)
        stages += _stages(prefilling, prefilling.prefill.program, own, waiting.prompt_tokens, activations)
    stages = stages if experts else stages[:2]
    totals = [added_up(terms_of(stage)) for stage in stages]
    return fullest([parts_of(stage) for stage in stages], lambda: totals)


def with_waiting(memory: Mapping[str, Number], scenario: GenerationScenario) -> Mapping[str, Number]:
    """Return the same where sequences wait for room, as in a steady loop: their cache is what is left, if one fits."""
    usable = scenario.cluster.device.memory_bytes * scenario.plan.memory_fraction
    others, cache = memory["total"] - memory["kv_cache"], memory["kv_cache"]
    held = smaller(cache, larger(usable - others, cache / _of_a_rank(scenario.plan, scenario.workload)))
    parts = {part: partial(memory.__getitem__, part) for part in memory}
    return NumbersOnDemand({**parts, "kv_cache": held, "total": others + held})


def _of_a_rank(plan: GenerationPlan, work: Generate) -> Number:
    """Sequences that run on the busiest data-parallel rank."""
    return rounded_up(plan.running(work.batch) / (plan.data_parallel * plan.replicas))


def further_activations(priced: PricedGeneration) -> Number:
    """Return the bytes by which a pass of all tokens that an iteration may have holds more than the passes that run.

    Engines that measure their memory run such a pass at their start, and leave its bytes free
    (vLLM 0.11 ``determine_available_memory``, TensorRT-LLM 1.2 ``KvCacheCreator``).
    """
    plan = priced.scenario.plan
    if plan.max_batched_tokens is None or not plan.engine.memory.holds_activations:
        return 0.0
    return larger(_activations(priced, 1.0 * plan.max_batched_tokens) - _activations(priced), 0.0)


def _activations(prefilling: PricedGeneration, tokens: Number | None = None) -> Number:
    """Return the bytes that are live in a pass of so many tokens, or in the fullest.

    That is one over prompts, or the first one that samples.
    """
    formats, model = prefilling.worker.formats, prefilling.scenario.model
    products = [op for block in prefilling.prefill.program.layers for op in block.operators if isinstance(op, Matmul)]
    widest = prefilling.of_each(reduce(larger, [op.n / 1.0 for op in products]))
    tokens = prefilling.of_each(products[0].m) if tokens is None else tokens
    live = formats.operands[formats.plain].activation_bytes * tokens * (LIVE_ACTIVATIONS * model.hidden_size + widest)
    return larger(live, _drawn(prefilling))


def _drawn(priced: PricedGeneration) -> Number:
    """Return the bytes of the sampling pass that an engine runs at its start, for as many sequences as may run."""
    scenario, most = priced.scenario, priced.scenario.plan.max_sequences
    sequences = _of_a_rank(scenario.plan, scenario.workload) if most is None else most
    return scenario.plan.engine.memory.logit_bytes * sequences * scenario.model.vocab_size


def _stages(
    priced: PricedGeneration, program: Program, sequences: Number, tokens: Count, activations: Number
) -> list[Ledger]:
    """The ledgers of the first pipeline stage and of the last, whose cache holds ``sequences`` of so many tokens."""
    scenario, worker = priced.scenario, priced.worker
    formats, plan, model = worker.formats, scenario.plan, scenario.model
    t, p = plan.tensor_parallel * 1.0, plan.pipeline_parallel * 1.0
    plain_bytes = formats.operands[formats.plain].weight_bytes
    adapters = sum(block.count * block.adapter_parameters for block in program.layers) * plain_bytes
    layers = priced.of_each(sum(block.count * _weights(block.operators) for block in program.layers) + adapters)
    there = program.layers if anywhere(plan.expert_devices > 0) else ()
    experts = [(block.count, [op for op in block.operators if op.module in WITH_EXPERTS]) for block in there]
    apart = (plan.expert_devices > 0) * priced.of_each(sum(count * _weights(own) for count, own in experts))
    table_format = formats.parts["head"] if plan.engine.kernels.quantizes_head else formats.plain
    table = formats.operands[table_format].weight_bytes * model.embedding_parameters / t
    head = 0.0 if model.tied_embeddings else priced.of_each(_weights(program.head.operators))
    blocks = rounded_up(tokens / plan.kv_block_tokens) * plan.kv_block_tokens
    # A driver's context, or interpreter and libraries where memory is the host's.
    process_bytes = worker.ranks.device_model.process_bytes
    others: Ledger = {
        "kv_cache": (sequences * cached_bytes(model, formats, blocks, t) / p,),
        "activations": (activations if plan.engine.memory.holds_activations else 0.0,),
        "framework": (plan.engine.memory.context_bytes if process_bytes is None else process_bytes,),
    }
    of_layers = (layers - apart) * rounded_up(model.layers / p) / model.layers
    alone = 1.0 * (p == 1.0)
    return [
        {"weights": (of_layers, table + alone * head), **others},
        {"weights": (of_layers, (1.0 - alone) * head), **others},
        {"weights": (apart,), **others, "kv_cache": (0.0,)},
    ]


def _weights(operators: Iterable[Operator]) -> Number:
    """Bytes of the weights that matmuls read; routed experts count whole."""
    total: Number = 0.0
    for op in operators:
        if isinstance(op, Matmul) and op.weight_bytes is not None:
            kept = op.weight_bytes if op.stored_bytes is None else op.stored_bytes
            total = total + op.count * op.batch * op.n * op.k * kept
        elif isinstance(op, GroupedMatmul):
            total = total + op.experts * op.n * op.k * op.weight_bytes
    return total
