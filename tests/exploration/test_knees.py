from dataclasses import replace

import numpy as np
import pytest

import sightline as sl
from sightline.exploration.knees import elasticities_by_level, knees
from sightline.profile import LEVELS

BANDWIDTHS = np.geomspace(0.5e12, 50e12, 60)


def _generation(cluster="1x h100-sxm-80gb", engine="reference", **plan):
    workload = {"task": "generate", "batch": 1, "prompt_tokens": 512, "output_tokens": 128}
    return sl.load(
        {"model": "llama-2-7b", "cluster": cluster, "workload": workload, "plan": {"framework": engine, **plan}}
    )


def _training(**plan):
    workload = {"task": "pretrain", "sequence_length": 2048, "global_batch": 64}
    settings = {"framework": "reference", "micro_batch": 1, **plan}
    return sl.load({"model": "llama-2-7b", "cluster": "16x a100-sxm-80gb", "workload": workload, "plan": settings})


def _with_memory(scenario, bandwidth, **numbers):
    device = replace(scenario.cluster.device, memory_bandwidth=bandwidth, **numbers)
    return replace(scenario, cluster=replace(scenario.cluster, device=device))


def test_decode_leaves_memory_for_l2_at_its_bandwidth():
    scenario = _generation()
    (knee,) = knees(BANDWIDTHS, elasticities_by_level(_with_memory(scenario, BANDWIDTHS), "tpot_s"))
    assert (knee.before, knee.after) == ("dram", "l2")
    assert knee.position == pytest.approx(scenario.cluster.device.l2_bandwidth, rel=0.1)


def test_decode_on_many_devices_leaves_memory_for_the_network_where_l2_keeps_up():
    many = _generation("8x a100-sxm-80gb", tensor_parallel=8)
    scenario = _with_memory(many, BANDWIDTHS, l2_bandwidth=1e15)
    found = knees(BANDWIDTHS, elasticities_by_level(scenario, "tpot_s"))
    assert [(knee.before, knee.after) for knee in found] == [("dram", "network")]


@pytest.mark.parametrize(
    ("scenario", "key"),
    [(_generation(), "latency_s"), (_generation(engine="vllm"), "ttft_s"), (_training(zero_stage=2), "step_time_s")],
)
def test_every_point_has_the_elasticities_that_it_has_alone(scenario, key):
    values = np.array([1e12, 4e12, 16e12])
    along = elasticities_by_level(_with_memory(scenario, values), key)
    assert set(along) == set(LEVELS)
    for i, value in enumerate(values):
        alone = elasticities_by_level(_with_memory(scenario, float(value)), key)
        assert {level: float(found[i]) for level, found in along.items()} == pytest.approx(alone, abs=1e-9)


@pytest.mark.parametrize("scenario", [_training(zero_stage=2), _training(tensor_parallel=4, pipeline_parallel=2)])
def test_levels_of_the_ideal_view_account_for_the_whole_time(scenario):
    found = elasticities_by_level(scenario, "step_time_s")
    assert sum(map(float, found.values())) == pytest.approx(1.0, abs=0.02)


def test_a_mesh_has_elasticities_of_its_shape():
    scenario = _with_memory(_training(), np.array([1e12, 2e12, 4e12])[:, None])
    intra_node = replace(scenario.cluster.intra_node, bandwidth=np.array([1e11, 3e11]))
    scenario = replace(scenario, cluster=replace(scenario.cluster, intra_node=intra_node))
    assert {found.shape for found in elasticities_by_level(scenario, "step_time_s").values()} == {(3, 2)}


def test_knees_lie_where_lines_cross_on_either_axis():
    falling, rising = np.array([0.8, 0.6, 0.2, 0.0]), np.array([0.2, 0.4, 0.6, 0.3])
    third = np.array([0.0, 0.0, 0.2, 0.7])
    elasticity = {"dram": falling, "l2": rising, "network": third}
    first, second = knees([1.0, 10.0, 100.0, 1000.0], elasticity)
    assert (first.before, first.after, second.before, second.after) == ("dram", "l2", "l2", "network")
    assert first.position == pytest.approx(10.0 * 10 ** (0.2 / 0.6))
    assert second.position == pytest.approx(100.0 * 10 ** (0.4 / 0.8))
    assert knees([0.0, 1.0, 2.0, 3.0], elasticity)[0].position == pytest.approx(1.0 + 0.2 / 0.6)
    assert knees([1.0, 2.0], {"dram": np.array([0.6, 0.6]), "l2": np.array([0.4, 0.4])}) == []
