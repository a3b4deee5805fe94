"""The memory ledger of generation: weights, cache and what a pass needs, on the fullest device."""

from functools import reduce

from sightline.prediction.generation.phases import PricedGeneration
from sightline.prediction.ledger import Ledger, fullest, parts_of, terms_of
from sightline.profile import NumbersOnDemand
from sightline.program import Block, GroupedMatmul, Matmul
from sightline.program.blocks.layer import cached_bytes
from sightline.quantities import Number, added_up, larger, rounded_up
from sightline.scenario import Generate

LIVE_ACTIVATIONS = 3.0
"""Hidden-wide activations that are live together with the widest one: the residual stream, a norm's output, a block's
output."""


def generation_memory(decoding: PricedGeneration, prefilling: PricedGeneration, work: Generate) -> NumbersOnDemand:
    """Return bytes by part, with ``total``, of the device that holds most when all sequences of ``work`` are there.

    Weights are those that the decode step's matmuls read, and the embedding; each pipeline stage holds its share of the
    layers, the last the head. The cache holds every sequence to its last token, in whole blocks.
    """
    scenario, worker, decode = decoding.scenario, decoding.worker, decoding.decode.program
    formats = worker.formats
    plan, model = scenario.plan, scenario.model
    t, p = plan.tensor_parallel * 1.0, plan.pipeline_parallel * 1.0
    layers = decoding.of_each(sum(block.count * _weights(block) for block in decode.layers))
    table_format = formats.parts["head"] if plan.engine.kernels.quantizes_head else formats.plain
    table = formats.operands[table_format].weight_bytes * model.embedding_parameters / t
    head = 0.0 if model.tied_embeddings else decoding.of_each(_weights(decode.head))
    blocks = rounded_up((work.prompt_tokens + work.output_tokens) / plan.kv_block_tokens) * plan.kv_block_tokens
    sequences = rounded_up(work.batch / (plan.data_parallel * plan.replicas))
    products = [op for block in prefilling.prefill.program.layers for op in block.operators if isinstance(op, Matmul)]
    widest, tokens = reduce(larger, [op.n / 1.0 for op in products]), products[0].m
    activations = (
        formats.operands[formats.plain].activation_bytes * tokens * (LIVE_ACTIVATIONS * model.hidden_size + widest)
    )
    # A driver's context, or interpreter and libraries where memory is the host's.
    process_bytes = worker.ranks.device_model.process_bytes
    others: Ledger = {
        "kv_cache": (sequences * cached_bytes(model, formats, blocks, t) / p,),
        "activations": (prefilling.of_each(activations),),
        "framework": (plan.engine.memory.context_bytes if process_bytes is None else process_bytes,),
    }
    of_layers = layers * rounded_up(model.layers / p) / model.layers
    alone = 1.0 * (p == 1.0)
    stages: list[Ledger] = [
        {"weights": (of_layers, table + alone * head), **others},
        {"weights": (of_layers, (1.0 - alone) * head), **others},
    ]
    totals = [added_up(terms_of(stage)) for stage in stages]
    return NumbersOnDemand(fullest([parts_of(stage) for stage in stages], lambda: totals))


def _weights(block: Block) -> Number:
    """Bytes of the weights that a block's matmuls read; routed experts count whole."""
    total: Number = 0.0
    for op in block.operators:
        if isinstance(op, Matmul) and op.weight_bytes is not None:
            kept = op.weight_bytes if op.stored_bytes is None else op.stored_bytes
            total = total + op.count * op.batch * op.n * op.k * kept
        elif isinstance(op, GroupedMatmul):
            total = total + op.experts * op.n * op.k * op.weight_bytes
    return total
