"""A training micro-batch of a transformer, written out for one device."""

from dataclasses import replace

from sightline.program.ends import embedding_block, head_block
from sightline.program.layer import layer_block
from sightline.program.prediction_layer import prediction_block
from sightline.program.program import Program
from sightline.program.shapes import shapes_of
from sightline.scenario import Scenario


def write_out(scenario: Scenario) -> Program:
    """Return the operators that one micro-batch of ``scenario`` executes, block kind by block kind."""
    x = shapes_of(scenario)
    ends = replace(x, low=None)
    plan, kinds = scenario.plan, scenario.model.kinds
    layers, head = [layer_block(x, kind, plan) for kind in kinds], head_block(x if plan.narrow_head else ends)
    if plan.prediction_layers:
        layers.append(prediction_block(x, ends, head, kinds[-1], plan))
        # The logits of every depth live until the backward pass.
        head = replace(head, logits=head.logits * (1.0 + plan.prediction_layers))
    return Program(embedding=embedding_block(ends), layers=tuple(layers), head=head)
