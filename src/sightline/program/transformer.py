"""A training micro-batch of a dense transformer, written out for one device."""

from sightline.program.ends import embedding_block, head_block
from sightline.program.layer import (
    layer_adapter_parameters,
    layer_backward,
    layer_forward,
    layer_inner_width,
    layer_parameters,
    projection_parameters,
)
from sightline.program.program import Block, Program
from sightline.program.quantized_weights import stored_bytes
from sightline.program.recompute import with_recompute
from sightline.program.shapes import shapes_of
from sightline.scenario import Scenario


def write_out(scenario: Scenario) -> Program:
    """Return the operators that one micro-batch of ``scenario`` executes, block kind by block kind."""
    x = shapes_of(scenario)
    plan = scenario.plan
    parameters, weights = layer_parameters(x), projection_parameters(x)
    # Without an adapter, what is not quantized is trained.
    frozen = parameters if plan.adapter is not None else weights * (not x.trained.projections)
    quantized = plan.quantization != "none"
    layer = Block(
        name="layer",
        forward=layer_forward(x, plan.attention),
        backward=layer_backward(x, plan.attention),
        # Beside the gradients lies the widest expanded weight.
        transient_bytes=2.0 * x.element_bytes * x.tokens * layer_inner_width(x)
        + quantized * x.element_bytes * scenario.model.hidden_size * scenario.model.intermediate_size / x.t,
        parameters=parameters,
        frozen_parameters=frozen,
        quantized_parameters=weights * quantized,
        quantized_bytes=stored_bytes(x),
        adapter_parameters=layer_adapter_parameters(x),
    )
    return Program(
        embedding=embedding_block(x),
        layer=with_recompute(layer, plan.recompute, x, stops_early=plan.framework.recompute_stops_early),
        head=head_block(x),
        layers=scenario.model.layers,
    )
