"""The knee of latency over the bandwidth of the memory."""

import numpy as np
import pytest

from sightline.exploration.knees import STARTS, elasticities, knee_of, with_numbers
from sightline.loading import generation_from_mapping

BANDWIDTH = np.geomspace(0.5e12, 20e12, 60)


@pytest.fixture
def scenario():
    return generation_from_mapping(
        {
            "model": "llama-2-7b",
            "cluster": "1x a100-sxm-80gb",
            "workload": {"task": "generate", "batch": 1, "prompt_tokens": 100, "output_tokens": 100},
            "plan": {"framework": "reference", "dtype": "fp16"},
        }
    )


def test_elasticities_are_shares_of_the_speed(scenario):
    found = elasticities(scenario, BANDWIDTH)
    assert sum(found.values()) == pytest.approx(np.ones_like(BANDWIDTH))
    # Without latencies only rates are left, away from where one level gives way to another.
    away = np.abs(np.log(BANDWIDTH / scenario.cluster.device.l2_bandwidth)) > 0.05
    assert found[STARTS][away] == pytest.approx(0.0, abs=0.02)


def test_knee_moves_with_l2(scenario):
    l2 = scenario.cluster.device.l2_bandwidth
    for factor in (0.5, 1.0, 2.0):
        knee = knee_of(with_numbers(scenario, l2_bandwidth=l2 * factor), BANDWIDTH)
        assert knee.after == "l2"
        assert knee.position == pytest.approx(l2 * factor, rel=0.1)


def test_no_knee_where_the_memory_binds_throughout(scenario):
    assert knee_of(with_numbers(scenario, l2_bandwidth=1e15), BANDWIDTH) is None
