"""FLOPs of a training step: the model's, by which utilization is measured, and those the hardware executes."""

from sightline.prediction.training.update import update_flops
from sightline.program import Program
from sightline.program.shapes import core_heads
from sightline.program.techniques.adapters import adapter_parameters
from sightline.program.techniques.trained import trained_by
from sightline.quantities import Number
from sightline.scenario import LayerKind, Model, Scenario


def model_flops(scenario: Scenario) -> Number:
    """FLOPs of one step that serve the model, whatever the plan: 6 per matmul weight and token, 12 b a s^2 d for attention.

    As Narayanan 2021 (arXiv 2104.04473) and PaLM (arXiv 2204.02311) count: forward once and backward twice, attention
    without the causal mask but within its window; of experts those that a token passes; a frozen weight takes 4, an
    adapter's 6. Packed samples see themselves alone, padding is nobody's work. Kernels that skip the masked half execute fewer, so at very long sequences the utilization by this count
    can pass 1. Recomputation, replicated heads and padding are not counted.
    """
    model, workload = scenario.model, scenario.workload
    trained = trained_by(scenario.plan, tied=model.tied_embeddings)
    weights = _per_weight(trained.projections) * sum(kind.count * matmul_weights(model, kind) for kind in model.kinds)
    weights += _per_weight(trained.head) * model.hidden_size * model.vocab_size
    scores = sum(6.0 * kind.count * _products_per_token(model, kind, workload.seen_tokens) for kind in model.kinds)
    further = scenario.plan.prediction_layers
    if further:
        # The layer, the projection that joins it to what is before, and the head once more.
        h, last = model.hidden_size, model.kinds[-1]
        weights += 6.0 * further * (matmul_weights(model, last) + 2.0 * h * h + h * model.vocab_size)
        scores += 6.0 * further * _products_per_token(model, last, workload.seen_tokens)
    adapter = scenario.plan.adapter
    added = 0.0 if adapter is None else 6.0 * adapter_parameters(model, adapter)
    return (weights + scores + added) * workload.tokens_per_step


def matmul_weights(model: Model, kind: LayerKind) -> float:
    """Elements of the matrices that a token is multiplied with in one layer of a kind."""
    return _mixer_weights(model, kind) + _mlp_weights(model, kind)


def _mixer_weights(model: Model, kind: LayerKind) -> float:
    h = model.hidden_size
    match kind.mixer:
        case "none":
            return 0.0
        case "latent" if model.latent is not None:
            norms = (model.latent.query_rank or 0) + model.latent.kv_rank
            return model.latent.parameters(h, model.heads) - norms
        case "attention" | "sliding" | "chunked":
            heads = model.heads_of(kind)
            return h * (heads.projected_width(gate=model.attention_gate) + heads.output_width)
        case _:
            # An indexer learns from a loss of its own, which hands no gradient on to its inputs: 4 of 6.
            return model.mixer_parameters(kind) - model.indexer_parameters(kind) / 3.0


def _mlp_weights(model: Model, kind: LayerKind) -> float:
    h, matrices = model.hidden_size, 3 if model.gated else 2
    if kind.mlp == "none":
        return 0.0
    if kind.mlp == "dense" or model.experts is None:
        return matrices * h * model.width_of(kind)
    of = model.experts
    routed = of.per_token * matrices * (of.latent_width or h) * of.width
    return routed + of.shared * matrices * h * of.shared_width + h * of.count + 2 * h * (of.latent_width or 0)


def _products_per_token(model: Model, kind: LayerKind, sequence_length: float) -> float:
    """Multiply-adds of a token with states, or of scores and context over all keys that its layer sees.

    A state takes three per element (input, decay or correction, output); an indexer scores every token.
    """
    match kind.mixer:
        case "none":
            return 0.0
        case "linear" if model.linear is not None:
            return 3.0 * model.linear.state_elements
        case "state-space" if model.state_space is not None:
            return 3.0 * model.state_space.state_elements
    heads = core_heads(model, kind)
    products = heads.heads * (heads.head_dim + heads.value_dim) * _seen(model, kind, sequence_length)
    if kind.indexed and model.sparse is not None:
        # The indexer scores what the mask leaves, and learns from what it selected: a third, and the whole, of 6.
        entries = sequence_length / kind.compression
        scored = (entries + 1.0) / 6.0 + min(entries, model.sparse.selected_tokens)
        products += model.sparse.heads * model.sparse.head_dim * scored
    return products


def _seen(model: Model, kind: LayerKind, sequence_length: float) -> float:
    """Keys that a token may see at most: all, those of a window, those selected, or folded ones and those of a window."""
    sparse = model.sparse
    chosen = sequence_length if sparse is None else sparse.selected_tokens * sparse.block_tokens
    match kind.mixer:
        case "sliding" | "chunked" if model.window:
            return min(sequence_length, model.window)
        case "sparse":
            return min(sequence_length, chosen)
        case "compressed":
            folded = sequence_length / kind.compression if kind.compression > 1 else 0.0
            further = min(folded, chosen) if kind.indexed else folded
            return min(sequence_length, (model.window or 0) + further)
    return sequence_length


def _per_weight(trained: bool) -> float:
    """FLOPs per matmul weight and token: a frozen weight has no gradient of its own."""
    return 6.0 if trained else 4.0


def hardware_flops(scenario: Scenario, program: Program) -> Number:
    """FLOPs that all devices execute in a step: with recomputation, replicated heads and padding, mask not subtracted."""
    executed: Number = 0.0
    for block in program.blocks:
        passes = sum(op.count * op.flops for op in (*block.forward, *block.backward))
        again = block.recomputed_share * sum(op.count * op.flops for op in block.recomputed)
        executed = executed + block.count * (passes + again)
    plan = scenario.plan
    ranks = plan.tensor_parallel * plan.context_parallel
    return executed * scenario.workload.global_batch / plan.sequences * ranks + update_flops(plan, program)
