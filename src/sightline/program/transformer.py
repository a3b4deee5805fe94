"""A training micro-batch of a transformer, written out for one device."""

from dataclasses import replace

from sightline.program.ends import embedding_block, head_block
from sightline.program.layer import layer_block
from sightline.program.program import Program
from sightline.program.shapes import shapes_of
from sightline.scenario import Scenario


def write_out(scenario: Scenario) -> Program:
    """Return the operators that one micro-batch of ``scenario`` executes, block kind by block kind."""
    x = shapes_of(scenario)
    ends = replace(x, low=None)
    return Program(
        embedding=embedding_block(ends),
        layers=tuple(layer_block(x, kind, scenario.plan) for kind in scenario.model.kinds),
        head=head_block(ends),
    )
