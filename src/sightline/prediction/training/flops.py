"""FLOPs of a training step: the model's, by which utilization is measured, and those the hardware executes."""

from sightline.prediction.training.update import update_flops
from sightline.program import Program
from sightline.program.blocks.layer import mixer_of
from sightline.program.settings import trained_by
from sightline.program.techniques.adapters import adapter_parameters
from sightline.quantities import Number
from sightline.scenario import LayerKind, Model, Scenario


def model_flops(scenario: Scenario) -> Number:
    """FLOPs of one step that serve the model: 6 per matmul weight and token, 12 b a s^2 d for attention.

    As Narayanan 2021 (arXiv 2104.04473) and PaLM (arXiv 2204.02311) count: forward once and backward twice, attention
    without the causal mask but within its window; of experts those that a token passes; a frozen weight takes 4, an
    adapter's 6. Packed samples see themselves alone, padding is nobody's work. Kernels that skip the masked half
    execute fewer, so at very long sequences the utilization by this count can pass 1. Recomputation, replicated heads
    and padding are not counted.
    """
    model, workload = scenario.model, scenario.workload
    trained = trained_by(scenario.plan, tied=model.tied_embeddings)
    weights = _per_weight(trained.projections) * sum(kind.count * matmul_weights(model, kind) for kind in model.kinds)
    weights += _per_weight(trained.head) * model.hidden_size * model.vocab_size
    scores = sum(6.0 * kind.count * mixer_of(model, kind).products(workload.seen_tokens) for kind in model.kinds)
    further = scenario.plan.prediction_layers
    if further:
        # The layer, the projection that joins it to what is before, and the head once more.
        h, last = model.hidden_size, model.kinds[-1]
        weights += 6.0 * further * (matmul_weights(model, last) + 2.0 * h * h + h * model.vocab_size)
        scores += 6.0 * further * mixer_of(model, last).products(workload.seen_tokens)
    adapter = scenario.plan.adapter
    added = 0.0 if adapter is None else 6.0 * adapter_parameters(model, adapter)
    return (weights + scores + added) * workload.tokens_per_step


def matmul_weights(model: Model, kind: LayerKind) -> float:
    """Elements of the matrices that a token is multiplied with in one layer of a kind."""
    return mixer_of(model, kind).matrix_elements + _mlp_weights(model, kind)


def _mlp_weights(model: Model, kind: LayerKind) -> float:
    h, matrices = model.hidden_size, 3 if model.gated else 2
    if kind.mlp == "none":
        return 0.0
    if kind.mlp == "dense" or model.experts is None:
        return matrices * h * model.width_of(kind)
    of = model.experts
    routed = of.per_token * matrices * (of.latent_width or h) * of.width
    return routed + of.shared * matrices * h * of.shared_width + h * of.count + 2 * h * (of.latent_width or 0)


def _per_weight(trained: bool) -> float:
    """FLOPs per matmul weight and token: a frozen weight has no gradient of its own."""
    return 6.0 if trained else 4.0


def hardware_flops(scenario: Scenario, program: Program) -> Number:
    """FLOPs that all devices execute in a step, with recomputation, replicated heads, padding and masked scores."""
    executed: Number = 0.0
    for block in program.blocks:
        passes = sum(op.count * op.flops for op in (*block.forward, *block.backward))
        again = block.recomputed_share * sum(op.count * op.flops for op in block.recomputed)
        executed = executed + block.count * (passes + again)
    plan = scenario.plan
    ranks = plan.tensor_parallel * plan.context_parallel
    return executed * scenario.workload.global_batch / plan.sequences * ranks + update_flops(plan, program)
