"""Records of measured loads in the form of simulated ones."""

import numpy as np

from sightline.simulation.engine.records import gap_edges_s
from sightline.simulation.replay import GAP_EDGES_S


def test_measured_and_simulated_gaps_are_counted_in_the_same_bins() -> None:
    assert np.array_equal(GAP_EDGES_S, gap_edges_s())
