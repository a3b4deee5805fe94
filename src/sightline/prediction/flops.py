"""FLOPs of a training step: the model's, by which utilization is measured, and those the hardware executes."""

from sightline.program import Program
from sightline.program.adapter import adapter_parameters
from sightline.program.trained import trained_by
from sightline.quantities import Number
from sightline.scenario import Scenario


def model_flops(scenario: Scenario) -> Number:
    """FLOPs of one step that serve the model, whatever the plan: 6 per matmul weight and token, 12 b a s^2 d for attention.

    As Narayanan 2021 (arXiv 2104.04473) and PaLM (arXiv 2204.02311) count: forward once and backward twice, attention
    without the causal mask; a frozen weight takes 4, an adapter's 6. Kernels that skip the masked half execute fewer, so at very long sequences the utilization by
    this count can pass 1. Recomputation, replicated heads and padding are not counted.
    """
    model, workload = scenario.model, scenario.workload
    gate = 2 if model.gated else 1
    attention = model.hidden_size * (2 * model.query_width + 2 * model.kv_width)
    layer = attention + model.hidden_size * model.intermediate_size * (gate + 1)
    scores = 12.0 * model.layers * model.query_width * workload.sequence_length
    trained = trained_by(scenario.plan, tied=model.tied_embeddings)
    weights = _per_weight(trained.projections) * model.layers * layer
    weights += _per_weight(trained.head) * model.hidden_size * model.vocab_size
    adapter = scenario.plan.adapter
    added = 0.0 if adapter is None else 6.0 * adapter_parameters(model, adapter)
    return (weights + scores + added) * workload.tokens_per_step


def _per_weight(trained: bool) -> float:
    """FLOPs per matmul weight and token: a frozen weight has no gradient of its own."""
    return 6.0 if trained else 4.0


def hardware_flops(scenario: Scenario, program: Program) -> Number:
    """FLOPs that all devices execute in a step: with recomputation, replicated heads and padding, mask not subtracted."""
    executed: Number = 0.0
    for block, count in zip(program.blocks, (1, program.layers, 1), strict=True):
        operators = (*block.forward, *block.backward, *block.recomputed)
        executed = executed + count * sum(op.count * op.flops for op in operators)
    plan = scenario.plan
    return executed * scenario.workload.global_batch / plan.sequences * plan.tensor_parallel
