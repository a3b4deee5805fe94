"""Levels of the machine: their seconds sum to the whole, rows name them, and the ideal view is a roofline of them."""

import json
from dataclasses import replace

import numpy as np
import pytest
import strategies
from generation_scenarios import generation
from hypothesis import assume, given
from hypothesis import strategies as st
from training_scenarios import training

from sightline.prediction import predict
from sightline.prediction.sensitivity import NUMBERS, elasticities, scaled
from sightline.prediction.training.step_profile import profile_of
from sightline.profile import LEVELS, Row

RATES = [name for name in NUMBERS if not name.endswith("latency_s") and name != "device.l2_bytes"]
DENSE = {"model": "llama-2-7b", "cluster": "16x h100-sxm-80gb", "sequence_length": 4096, "global_batch": 64}
SPARSE = {"model": "deepseek-v3", "cluster": "256x h800-sxm-80gb", "sequence_length": 4096, "global_batch": 2048}
TRAININGS = {
    "tensor and pipeline": training(**DENSE, plan={"tensor_parallel": 2, "pipeline_parallel": 2, "micro_batch": 1}),
    "zero": training(**DENSE, plan={"zero_stage": 3, "micro_batch": 1, "recompute": "full"}),
    "consumer": training(**DENSE | {"cluster": "16x rtx-4090"}, plan={"zero_stage": 2, "micro_batch": 1}),
    "mesh of links": training(
        **DENSE | {"model": "llama-2-70b", "cluster": "64x mi300x"}, plan={"tensor_parallel": 8, "micro_batch": 1}
    ),
    "experts": training(
        **SPARSE, plan={"pipeline_parallel": 8, "expert_parallel": 32, "zero_stage": 1, "micro_batch": 1}
    ),
    "long context": training(
        **DENSE | {"model": "llama-3.1-405b", "cluster": "512x b200-sxm-180gb", "sequence_length": 8192},
        plan={"tensor_parallel": 8, "context_parallel": 4, "pipeline_parallel": 4, "micro_batch": 1},
    ),
}
LARGE = {"batch": 16, "prompt_tokens": 1024}
GENERATIONS = {
    "one device": generation(),
    "tensor": generation(model="llama-2-70b", cluster="8x h100-sxm-80gb", plan={"tensor_parallel": 8}, **LARGE),
    "two nodes": generation(
        model="llama-3.1-405b",
        cluster="16x h100-sxm-80gb",
        plan={"tensor_parallel": 8, "pipeline_parallel": 2},
        **LARGE,
    ),
    "experts over nodes": generation(
        model="deepseek-v3", cluster="16x h200-sxm-141gb", plan={"tensor_parallel": 16}, **LARGE
    ),
    "pcie": generation(model="qwen3-30b-a3b", cluster="4x l40s-48gb", plan={"tensor_parallel": 4}, **LARGE),
}
IDEAL = TRAININGS | GENERATIONS
WAITING = ("bubble", "waiting for longer samples", "waiting for the slowest device")


def without_latencies(scenario):
    cluster = scenario.cluster
    inside, outside = (replace(part, latency_s=0.0) for part in (cluster.intra_node, cluster.network))
    return replace(scenario, cluster=replace(cluster, intra_node=inside, network=outside))


def on(scenario, **numbers):
    """The scenario on a device with other numbers."""
    return replace(scenario, cluster=replace(scenario.cluster, device=replace(scenario.cluster.device, **numbers)))


@pytest.mark.parametrize("scenario", IDEAL.values(), ids=IDEAL)
def test_elasticities_over_all_rates_sum_to_minus_one_in_the_ideal_view(scenario):
    found = elasticities(without_latencies(scenario))
    for key in found[RATES[0]]:
        assert sum(found[name][key] for name in RATES) == pytest.approx(-1.0, abs=0.02)


@given(
    scenario=st.sampled_from(list(IDEAL.values())),
    number=st.sampled_from(RATES),
    factors=st.lists(st.floats(0.05, 20.0), min_size=2, max_size=6),
)
def test_more_of_a_rate_is_never_slower_in_the_ideal_view(scenario, number, factors):
    factor = np.sort(np.array(factors))
    faster = replace(scenario, cluster=scaled(scenario.cluster, number, factor))
    whole = np.broadcast_to(predict(faster).whole_s, factor.shape)
    assert (np.diff(whole) <= 1e-9 * whole[:-1]).all()


@pytest.mark.parametrize("scenario", IDEAL.values(), ids=IDEAL)
def test_memory_faster_than_l2_gains_nothing_in_the_ideal_view(scenario):
    l2 = scenario.cluster.device.l2_bandwidth
    even, faster = (predict(on(scenario, memory_bandwidth=factor * l2)) for factor in (1.0, 100.0))
    assert faster.whole_s == pytest.approx(even.whole_s, rel=1e-9)
    assert faster.levels["dram"] == pytest.approx(0.0, abs=1e-12)
    assert faster.levels["l2"] > 0.0


RATES_OF = {
    "compute": ["device.peak_flops", "device.vector_flops"],
    "dram": ["device.memory_bandwidth"],
    "l2": ["device.l2_bandwidth"],
    "network": ["intra_node.bandwidth", "network.bandwidth_per_node"],
}


def gains(scenario, factor):
    """By level: how many times faster the step is with so many times its rates."""
    before = float(profile_of(scenario).step_time_s)
    found = {}
    for level, numbers in RATES_OF.items():
        cluster = scenario.cluster
        for number in numbers:
            cluster = scaled(cluster, number, factor)
        found[level] = before / float(profile_of(replace(scenario, cluster=cluster)).step_time_s)
    return found


@st.composite
def overlapping(draw):
    """A dense step of the reference, whose communication overlaps with work, on links slow or fast."""
    drawn = {
        "tensor_parallel": draw(st.sampled_from([1, 2, 4])),
        "context_parallel": draw(st.sampled_from([1, 2])),
        "pipeline_parallel": draw(st.sampled_from([1, 2, 4])),
        "data_parallel": draw(st.sampled_from([1, 2, 8])),
    }
    virtual = draw(st.sampled_from([1, 2])) if drawn["pipeline_parallel"] > 1 else 1
    plan = drawn | {
        "virtual_stages": virtual,
        "zero_stage": draw(st.sampled_from([0, 1, 2, 3])),
        "recompute": draw(st.sampled_from(["none", "full"])),
        "tensor_overlap": draw(st.sampled_from(["none", "all"])),
        "micro_batch": 1,
    }
    device = draw(st.sampled_from(["a100-sxm-80gb", "h100-sxm-80gb", "mi300x"]))
    scenario = training(
        model="llama-2-7b",
        cluster=f"{int(np.prod(list(drawn.values())))}x {device}",
        sequence_length=draw(st.sampled_from([512, 4096])),
        global_batch=drawn["data_parallel"] * 4 * draw(st.sampled_from([1, 4])),
        plan=plan,
    )
    cluster, links = scenario.cluster, draw(st.floats(0.01, 10.0))
    for number in RATES_OF["network"]:
        cluster = scaled(cluster, number, links)
    return without_latencies(replace(scenario, cluster=cluster))


@given(overlapping())
def test_a_step_gains_most_by_faster_rates_of_the_level_that_binds(scenario):
    profile = profile_of(scenario)
    step_s = float(profile.step_time_s)
    faster, slower = gains(scenario, 1.01), gains(scenario, 1 / 1.01)
    # Away from places where one thing gives way to another, faster gains what slower loses.
    assume(all(abs(faster[level] * slower[level] - 1.0) < 1e-3 for level in RATES_OF))
    shares = {level: np.log(gain) / np.log(1.01) for level, gain in faster.items()}
    assert shares[profile.bound_level] >= max(shares.values()) - 0.05
    if scenario.plan.pipeline_parallel == 1:
        for level, share in shares.items():
            assert profile.levels[level] / step_s == pytest.approx(share, abs=0.03)


OUTLASTING = training(
    model="llama-2-7b",
    cluster="8x a800-sxm-80gb",
    sequence_length=350,
    global_batch=16,
    plan={"zero_stage": 2, "micro_batch": 2},
)


def test_gradients_that_outlast_the_backward_pass_bind_it():
    """The arithmetic of the pass is hidden: a peak of four times gains next to nothing, links of twice a lot."""
    assert profile_of(OUTLASTING).bound_level == "network"
    assert gains(OUTLASTING, 4.0)["compute"] < 1.03
    assert gains(OUTLASTING, 2.0)["network"] > 1.3


@given(strategies.trainings())
def test_levels_of_a_step_sum_to_it_and_to_its_rows(scenario):
    profile = profile_of(scenario)
    step_s = float(profile.step_time_s)
    assert tuple(profile.levels) == LEVELS
    assert sum(profile.levels.values()) == pytest.approx(step_s, rel=1e-9)
    assert min(profile.levels.values()) >= -1e-9 * step_s
    assert profile.levels[profile.bound_level] == max(profile.levels.values())
    working = [row for row in profile.rows if row.operator not in WAITING]
    waited_s = sum(row.exposed_s for row in profile.rows if row.operator in WAITING)
    more_s = {
        level: profile.levels[level] - sum(row.exposed_s for row in working if row.bound_level == level)
        for level in LEVELS
    }
    # Operators behind transfers that outlast them keep their level, though their seconds are the network's.
    assert sum(more_s.values()) == pytest.approx(waited_s, abs=1e-9 * step_s)
    assert more_s["network"] >= -1e-9 * step_s
    for level in set(LEVELS) - {"network"}:
        assert -more_s["network"] - 1e-9 * step_s <= more_s[level] <= waited_s + 1e-9 * step_s
    assert {row.bound_level for row in profile.rows} <= set(LEVELS)


ENGINES = {
    "vllm": {"framework": "vllm", "tensor_parallel": 2},
    "pipeline": {"framework": "vllm", "pipeline_parallel": 2},
    "eager": {"framework": "transformers"},
    "llama.cpp": {"framework": "llama.cpp", "quantization": ["w4a16"]},
    "speculative": {"framework": "vllm", "tensor_parallel": 2, "speculative": {"tokens": 3, "acceptance": 0.7}},
    "disaggregated": {"framework": "vllm", "disaggregate": {"prefill": {"replicas": 1}, "decode": {"replicas": 1}}},
}


@pytest.mark.parametrize("plan", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("batch", [1, 32])
def test_levels_of_a_batch_sum_to_its_phases_and_its_rows(plan, batch):
    devices = 2 if set(plan) & {"tensor_parallel", "pipeline_parallel", "disaggregate"} else 1
    profile = predict(generation(cluster=f"{devices}x h100-sxm-80gb", batch=batch, plan=plan))
    assert sum(profile.levels.values()) == pytest.approx(float(profile.latency_s), rel=1e-9)
    assert set(profile.levels_by_phase) == {"prefill", "decode"}
    for level in LEVELS:
        assert profile.levels[level] == pytest.approx(sum(of[level] for of in profile.levels_by_phase.values()))
        seconds = sum(row.exposed_s for row in profile.rows if row.bound_level == level)
        if plan.get("speculative") is None:
            assert profile.levels[level] == pytest.approx(seconds, rel=1e-6, abs=1e-12)


BANDWIDTHS = np.array([0.2e12, 3e12, 30e12])
PEAKS = np.array([0.3, 1.0, 8.0])[:, None]
CALIBRATED = {
    "megatron": training(
        **DENSE, plan={"framework": "megatron", "tensor_parallel": 2, "pipeline_parallel": 2, "micro_batch": 1}
    ),
    "vllm": generation(cluster="2x h100-sxm-80gb", plan=ENGINES["vllm"]),
}
MESHES = (
    CALIBRATED
    | {"gradients": OUTLASTING}
    | {name: IDEAL[name] for name in ("experts", "tensor and pipeline", "tensor", "experts over nodes")}
)


@pytest.mark.parametrize("scenario", MESHES.values(), ids=MESHES)
def test_levels_of_a_mesh_are_those_of_its_points(scenario):
    peaks = scenario.cluster.device.peak_flops

    def at(bandwidth, peak):
        rates = {name: rate * peak for name, rate in peaks.items()}
        return predict(on(scenario, memory_bandwidth=bandwidth, peak_flops=rates))

    mesh = at(BANDWIDTHS, PEAKS)
    assert mesh.bound_level.shape == (3, 3)
    for i, peak in enumerate(PEAKS[:, 0]):
        for j, bandwidth in enumerate(BANDWIDTHS):
            alone, point = at(float(bandwidth), float(peak)), mesh[i, j]
            assert point.levels == pytest.approx(alone.levels, rel=1e-9, abs=1e-12)
            assert point.bound_level == alone.bound_level == mesh.bound_level[i, j]


def test_a_bubble_has_the_level_of_the_pass_that_it_waits_for():
    scenario = TRAININGS["tensor and pipeline"]
    for bandwidth, level in ((3e12, "compute"), (1e10, "dram")):
        (bubble,) = (row for row in predict(on(scenario, memory_bandwidth=bandwidth)).rows if row.bound == "bubble")
        assert bubble.bound_level == level


def test_an_operator_has_a_level_and_results_say_it():
    profile = predict(TRAININGS["zero"])
    result = json.loads(json.dumps(profile.to_dict(tables=True)))
    assert result["bound_level"] == profile.bound_level
    assert result["levels"] == pytest.approx(profile.levels)
    assert all(row["bound_level"] in LEVELS for row in result["rows"])
    assert profile.table["bound_level"].to_list() == [row["bound_level"] for row in result["rows"]]


def test_rows_of_older_runs_have_no_level():
    stored = {"phase": "forward", "block": "layer", "module": "mlp", "operator": "up", "time_s": 1.0, "bound": "memory"}
    assert Row.from_mapping(stored).bound_level == ""
