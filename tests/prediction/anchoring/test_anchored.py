"""Predictions with own steps and requests."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
from generation_scenarios import generation
from hypothesis import given, settings
from hypothesis import strategies as st
from training_scenarios import training

import sightline as sl
from sightline.anchors.corrected import anchored
from sightline.errors import InputError
from sightline.prediction.anchoring.anchored_requests import engine_at_site
from sightline.prediction.anchoring.anchored_requests import least_seconds as least_request_seconds
from sightline.prediction.anchoring.anchored_steps import least_seconds as least_step_seconds
from sightline.prediction.anchoring.timed import timed_of
from sightline.prediction.generation.policies import latencies
from sightline.prediction.generation.sites import constants_at, straying

WIDTH = "step_time_s"


def _steps(**plan):
    settings = {"framework": "deepspeed", "zero_stage": 2, "micro_batch": 2} | plan
    return training(model="llama-2-7b", cluster="8x a800-sxm-80gb", sequence_length=350, global_batch=16, plan=settings)


def _requests(batch=8, **plan):
    return generation(cluster="2x h100-sxm-80gb", batch=batch, plan={"framework": "vllm", "tensor_parallel": 2} | plan)


def _measured(scenario, factor=1.0, **others):
    """The scenario as if it took ``factor`` times as long as predicted."""
    answer = sl.predict(scenario)
    keys = ("step_time_s",) if answer.task.name == "training" else ("ttft_s", "tpot_s")
    return replace(scenario, measured={key: getattr(answer, key) * factor for key in keys} | others, name="own")


def _width(answer, key):
    low, high = answer.interval[key]
    return log(high / low)


CASES = [(_steps(), WIDTH), (_requests(), "tpot_s")]


@pytest.mark.parametrize(("scenario", "key"), CASES, ids=["training", "generation"])
def test_a_step_as_predicted_moves_nothing_and_narrows_the_interval(scenario, key):
    before, after = sl.predict(scenario), sl.predict(scenario, anchor=[_measured(scenario)])
    assert getattr(after, key) == pytest.approx(getattr(before, key), rel=1e-9)
    assert _width(after, key) < 0.8 * _width(before, key)
    assert after.evidence["framework"] == "calibrated"
    assert after.anchor[0]["learned"] == []


@pytest.mark.parametrize(("scenario", "key"), CASES, ids=["training", "generation"])
@pytest.mark.parametrize("factor", [0.9, 1.2])
def test_the_same_plan_takes_about_as_long_as_was_measured(scenario, key, factor):
    before, after = sl.predict(scenario), sl.predict(scenario, anchor=[_measured(scenario, factor)])
    assert getattr(after, key) / getattr(before, key) == pytest.approx(factor, rel=0.002)
    low, high = after.interval[key]
    assert low < factor * getattr(before, key) < high
    assert sum(after.phases.values()) == pytest.approx(after.whole_s)
    assert sum(row.exposed_s for row in after.rows) == pytest.approx(after.whole_s)


FACTOR = st.floats(1.0, 3.0) | st.floats(0.9, 1.0)
QUANTITIES = [("ttft_s", "tpot_s"), ("ttft_s",), ("tpot_s",), ("latency_s",)]
ASKED_STEPS = [
    _steps(),
    _steps(zero_stage=3, micro_batch=1),
    _steps(framework="megatron", zero_stage=0, tensor_parallel=2),
    _steps(framework="fsdp", zero_stage=3, recompute="full"),
]


def _lies_between(scenario, factors):
    """Check that a scenario anchored with itself has each result between the prediction and what was measured."""
    before = sl.predict(scenario)
    measured = {key: getattr(before, key) * factor for key, factor in factors.items()}
    after = sl.predict(scenario, anchor=[replace(scenario, measured=measured, name="own")])
    for key in factors.keys() - {"forward_pass_s"}:
        low, high = sorted((getattr(before, key), measured[key]))
        assert low * 0.997 <= getattr(after, key) <= high * 1.003


@settings(max_examples=8)
@given(st.sampled_from(ASKED_STEPS), FACTOR)
def test_a_step_anchored_with_itself_lies_between_prediction_and_measurement(scenario, factor):
    _lies_between(scenario, {WIDTH: factor})


@settings(max_examples=12)
@given(
    st.sampled_from(["vllm", "sglang", "tensorrt-llm"]),
    st.sampled_from([1, 8, 64]),
    st.sampled_from(QUANTITIES),
    FACTOR,
    FACTOR,
)
def test_requests_anchored_with_themselves_lie_between_prediction_and_measurement(engine, batch, keys, one, other):
    _lies_between(_requests(batch, framework=engine), dict(zip(keys, (one, other), strict=False)))


def test_a_first_token_and_a_whole_answer_say_how_long_a_further_token_takes():
    asked = _requests()
    before = sl.predict(asked)
    measured = {"ttft_s": 2.0 * before.ttft_s, "latency_s": 1.5 * before.latency_s}
    after = sl.predict(asked, anchor=[replace(asked, measured=measured, name="own")])
    assert {key: getattr(after, key) for key in measured} == pytest.approx(measured, rel=0.003)


def test_an_anchor_of_another_batch_is_of_another_plan():
    own, other = _measured(_steps(), 1.3), _steps()
    other = replace(other, workload=replace(other.workload, global_batch=64))
    same, near = (sl.predict(asked, anchor=[own]).step_time_s / sl.predict(asked).step_time_s for asked in (own, other))
    assert same == pytest.approx(1.3, rel=0.002)
    assert 1.0 < near < 1.29


def test_runs_of_the_same_plan_are_averaged():
    own = [replace(_measured(_steps(), factor), name=f"run {factor}") for factor in (1.1, 1.2)]
    before, after = sl.predict(_steps()), sl.predict(_steps(), anchor=own)
    assert 1.1 < after.step_time_s / before.step_time_s < 1.2


def test_a_near_plan_learns_more_than_a_distant_one():
    own = _measured(_steps(), 1.15)
    near, distant = (_steps(micro_batch=1), _steps(zero_stage=3, recompute="full", micro_batch=1))
    widths = [
        _width(sl.predict(plan, anchor=[own]), WIDTH) / _width(sl.predict(plan), WIDTH) for plan in (near, distant)
    ]
    # A distant plan may turn out to hang more on what is still unknown.
    assert widths[0] < min(widths[1], 1.0)


def test_the_order_of_anchors_does_not_matter():
    first, second = _measured(_steps(), 1.2), _measured(_steps(zero_stage=3), 1.1)
    asked = _steps(micro_batch=1)
    one, other = (sl.predict(asked, anchor=both) for both in ([first, second], [second, first]))
    assert one.step_time_s == pytest.approx(other.step_time_s, rel=1e-3)
    assert one.interval[WIDTH] == pytest.approx(other.interval[WIDTH], rel=1e-3)


def test_a_slow_network_is_learned_where_it_binds():
    scenario = training(
        model="llama-2-70b",
        cluster={"devices": "64x a100-sxm-80gb", "network": {"bandwidth_per_node": "3 GB/s", "latency": "10 us"}},
        sequence_length=2048,
        global_batch=64,
        plan={"framework": "megatron", "tensor_parallel": 8, "micro_batch": 1, "zero_stage": 1},
    )
    taught = sl.predict(scenario, anchor=[_measured(scenario, 1.4)]).anchor[0]
    assert "your network" in taught["sentence"]
    network = next(one for one in taught["learned"] if one["constant"] == "collective_slowdown")
    assert network["value"] > 1.1 * network["assumed"]
    assert network["interval"][0] < network["value"] < network["interval"][1]


def test_rates_say_how_long_a_step_takes():
    scenario = _steps()
    answer = sl.predict(scenario)
    for key in ("tokens_per_s", "tokens_per_s_per_device", "model_flops_per_s_per_device", "mfu"):
        own = replace(scenario, measured={key: getattr(answer, key)})
        assert anchored([own]).steps.corrections.timed[0].seconds == pytest.approx(answer.step_time_s)


def test_a_micro_batch_is_chosen_with_what_was_learned():
    own = _measured(_steps(), 1.2)
    answer = sl.predict(_steps(micro_batch=None), anchor=[own])
    candidates = [sl.predict(_steps(micro_batch=size), anchor=[own]).step_time_s for size in (1, 2)]
    assert answer.step_time_s == pytest.approx(min(candidates))


@pytest.mark.parametrize(
    ("scenario", "measured"),
    [(_steps(), {"step_time_s": 0.05}), (_requests(), {"ttft_s": 1e-4}), (_requests(), {"tpot_s": 1e-5})],
)
def test_faster_than_physics_is_refused_with_both_numbers(scenario, measured):
    with pytest.raises(InputError, match=r"measured .* s, but .* needs at least .* s"):
        sl.predict(scenario, anchor=[replace(scenario, measured=measured, name="own")])


def test_an_anchor_may_leave_the_micro_batch_open():
    scenario = _steps(micro_batch=None)
    seconds = sl.predict(scenario).step_time_s
    answer = sl.predict(scenario, anchor=[replace(scenario, measured={"step_time_s": 1.1 * seconds})])
    assert answer.step_time_s == pytest.approx(1.1 * seconds, rel=0.05)


def test_another_task_teaches_nothing():
    with pytest.raises(InputError, match="the anchors measured training, but the scenario is generation"):
        sl.predict(_requests(), anchor=[_measured(_steps())])
    operator = sl.load(
        {"cluster": "1x a100-sxm-80gb", "workload": {"task": "operator", "operator": "copy", "elements": 1e6}}
    )
    with pytest.raises(InputError, match="single operators"):
        sl.predict(operator, anchor=[_measured(_steps())])


CONTRADICTING = [
    ((_measured(_steps(), 1.0), _measured(_steps(zero_stage=1), 2.5)), _steps(micro_batch=1), (WIDTH, "tokens_per_s")),
    (
        (_measured(_requests(), 1.0), _measured(_requests(batch=16), 4.0)),
        _requests(batch=12),
        ("ttft_s", "tpot_s", "output_tokens_per_s"),
    ),
]


@pytest.mark.parametrize(("both", "asked", "keys"), CONTRADICTING, ids=["training", "generation"])
def test_anchors_that_contradict_each_other_are_shown_and_the_interval_spans_both(both, asked, keys):
    together, alone = sl.predict(asked, anchor=both), [sl.predict(asked, anchor=[one]) for one in both]
    assert any("contradict each other" in warning for warning in together.warnings)
    for key in keys:
        low, high = together.interval[key]
        assert low <= min(one.interval[key][0] for one in alone) * (1 + 1e-6)
        assert high >= max(one.interval[key][1] for one in alone) * (1 - 1e-6)


def _fastest(scenario):
    """The scenario with times just above what is refused as faster than physics, or as too far off."""
    answer = sl.predict(scenario)
    keys, least = (
        (("step_time_s",), least_step_seconds)
        if answer.task.name == "training"
        else (("ttft_s", "tpot_s"), least_request_seconds)
    )
    timed = timed_of(scenario, {key: getattr(answer, key) for key in keys}, "own")
    return replace(
        scenario, measured={one.quantity: max(1.001 * least(one), one.seconds / 4.9) for one in timed}, name="own"
    )


def test_no_anchored_step_is_faster_than_its_kernels_allow():
    for asked in (_steps(), _steps(micro_batch=1), _steps(zero_stage=3)):
        answer = sl.predict(asked, anchor=[_fastest(_steps())])
        assert answer.step_time_s >= least_step_seconds(timed_of(asked, {WIDTH: 1.0}, "asked")[0])


def test_no_anchored_request_is_faster_than_its_kernels_allow():
    for asked in (_requests(), _requests(batch=1), _requests(batch=64)):
        answer = sl.predict(asked, anchor=[_fastest(_requests())])
        floor = _floor(asked)
        assert answer.ttft_s >= floor.ttft_s * (1 - 1e-6)
        assert answer.tpot_s >= floor.tpot_s * (1 - 1e-6)
        assert sum(answer.phases.values()) == pytest.approx(answer.whole_s)


def _floor(scenario):
    """Latencies of kernels that take what their arithmetic and bytes need, and of hosts that take nothing."""
    engine = engine_at_site(scenario)
    ideal = dict.fromkeys(straying(), -20.0)
    return latencies(engine.workers, constants_at(engine.base.running_on(scenario.cluster), ideal))


def test_another_device_or_framework_is_warned_about():
    own = _measured(_steps(), 1.2)
    elsewhere = training(
        model="llama-2-7b",
        cluster="8x h100-sxm-80gb",
        sequence_length=350,
        global_batch=16,
        plan={"framework": "deepspeed", "zero_stage": 2, "micro_batch": 2},
    )
    answer = sl.predict(elsewhere, anchor=[own])
    assert any("anchored on a800-sxm-80gb, predicting h100-sxm-80gb" in warning for warning in answer.warnings)
    moved = answer.step_time_s / sl.predict(elsewhere).step_time_s
    assert 1.0 < moved < 1.2
    other = sl.predict(_steps(framework="fsdp", zero_stage=3), anchor=[own])
    assert any("anchored with deepspeed, predicting fsdp" in warning for warning in other.warnings)


def test_another_device_and_framework_leave_what_all_have_in_common():
    elsewhere = training(
        model="llama-2-7b",
        cluster="8x h100-sxm-80gb",
        global_batch=16,
        plan={"framework": "fsdp", "zero_stage": 3, "micro_batch": 1},
    )
    warnings = sl.predict(elsewhere, anchor=[_measured(_steps(), 1.2)]).warnings
    said = "anchored with deepspeed on a800-sxm-80gb, predicting fsdp on h100-sxm-80gb"
    assert [said in warning for warning in warnings if warning.startswith("anchored")] == [True]


def _of_model(model):
    plan = {"framework": "deepspeed", "zero_stage": 3, "micro_batch": 1}
    return training(model=model, cluster="8x a800-sxm-80gb", global_batch=16, plan=plan)


@pytest.mark.parametrize(
    ("measured", "asked", "said"),
    [
        ("llama-2-7b", "mixtral-8x7b", "predicting mixtral-8x7b with experts"),
        ("mixtral-8x7b", "llama-2-7b", "predicting llama-2-7b without experts"),
        ("gpt-1.3b", "llama-2-7b", "anchored on gpt-1.3b, predicting llama-2-7b"),
    ],
)
def test_another_model_is_warned_about(measured, asked, said):
    answer = sl.predict(_of_model(asked), anchor=[_measured(_of_model(measured), 1.2)])
    assert [said in one for one in answer.warnings if one.startswith("anchored on")] == [True]


def test_a_mesh_of_plans_is_what_each_plan_is_alone():
    known = anchored([_measured(_steps(), 1.2)])
    sizes = np.array([1, 2])
    plans = replace(_steps(), plan=replace(_steps().plan, micro_batch=sizes))
    mesh = sl.predict(plans, anchor=known)
    alone = [sl.predict(_steps(micro_batch=int(size)), anchor=known).step_time_s for size in sizes]
    assert mesh.step_time_s == pytest.approx(alone)


@pytest.mark.parametrize("size", ["batch", "prompt_tokens", "output_tokens"])
def test_a_mesh_of_batches_is_what_each_batch_is_alone(size):
    known = anchored([_measured(_requests(), 1.4)])
    values = np.array([64.0, 1024.0, 200_000.0])

    def sized(value):
        return replace(_requests(), workload=replace(_requests().workload, **{size: value}))

    mesh = sl.predict(sized(values), anchor=known)
    alone = [sl.predict(sized(float(value)), anchor=known) for value in values]
    assert mesh.ttft_s == pytest.approx([one.ttft_s for one in alone])
    assert mesh.tpot_s == pytest.approx([one.tpot_s for one in alone])


def test_sensitivity_is_anchored_too():
    from sightline.anchors.corrected import sensitivity

    own = _measured(_steps(), 1.2)
    found = sensitivity(_steps(), anchor=[own])
    assert found.answer.step_time_s == pytest.approx(sl.predict(_steps(), anchor=[own]).step_time_s)
    assert all(neighbour.profile.anchor for neighbour in found.neighbours)


def test_a_step_that_the_host_binds_is_learned_from():
    """Where an anchor leads to, other constants may set the pace than those that did before."""
    scenario = training(
        model="gpt-1.3b",
        cluster="8x h100-sxm-80gb",
        sequence_length=64,
        global_batch=32,
        plan={"framework": "megatron", "micro_batch": 1},
    )
    for factor in (0.7, 2.0, 5.0):
        own = _measured(scenario, factor)
        anchored = sl.predict(scenario, anchor=[own])
        assert anchored.step_time_s == pytest.approx(own.measured["step_time_s"], rel=0.1)


def test_a_surprising_anchor_leaves_a_wider_interval():
    distant = _steps(recompute="full", micro_batch=1)
    widths = [_width(sl.predict(distant, anchor=[_measured(_steps(), factor)]), WIDTH) for factor in (1.0, 1.3, 2.0)]
    assert widths[0] < widths[1] < widths[2]


@pytest.mark.parametrize(
    ("factor", "question"),
    [(1000.0, "is it in ms?"), (8.0, "check its unit"), (0.19, "(check its unit|needs at least)")],
)
def test_an_anchor_far_off_its_prediction_is_refused_with_both_numbers(factor, question):
    own = _measured(_steps(), factor)
    with pytest.raises(InputError, match=question) as error:
        anchored([own])
    assert f"{own.measured['step_time_s']:.4g} s" in str(error.value)


def test_tokens_far_off_their_prediction_are_refused_too():
    with pytest.raises(InputError, match="is it in ms"):
        anchored([_measured(_requests(), 1000.0)])


def test_an_anchor_of_another_task_is_said_to_be_left_out():
    known = anchored([_measured(_steps()), replace(_measured(_requests()), name="requests")])
    for asked, name in ((_steps(), "requests"), (_requests(), "own")):
        (said,) = [w for w in sl.predict(asked, anchor=known).warnings if "is ignored" in w]
        assert said.startswith(f"anchor '{name}' measured")


def test_what_anchors_taught_prints_in_a_line():
    known = anchored([_measured(_steps(), 1.2)])
    assert repr(known) == f"Anchored(own: {known.to_dicts('training')[0]['sentence']})"
    assert len(repr(known)) < 400


@pytest.mark.parametrize("scenario", [_steps(), _requests()], ids=["training", "generation"])
def test_nothing_is_calibrated_by_an_anchor_that_no_cluster_resembles(scenario):
    answer = sl.predict(scenario, anchor=[_measured(scenario, 4.5)])
    assert any("more than published clusters differ" in said for said in answer.warnings)
    assert answer.evidence["framework"] != "calibrated"


def test_tokens_faster_than_the_weights_of_their_own_format_can_be_read_are_refused():
    asked = _requests()
    device = asked.cluster.device
    weights = float(sl.predict(asked).memory_bytes["weights"])
    too_fast = 0.6 * weights / (device.memory_bandwidth * asked.cluster.devices)
    with pytest.raises(InputError, match="needs at least"):
        sl.predict(asked, anchor=[replace(asked, measured={"tpot_s": too_fast})])


def test_first_tokens_wait_for_the_prompts_of_the_whole_batch_but_in_a_steady_loop():
    def least(**changes):
        asked = replace(_requests(), measured={"ttft_s": 1.0})
        asked = replace(asked, workload=replace(asked.workload, **changes))
        return least_request_seconds(timed_of(asked, {"ttft_s": 1.0}, "own")[0])

    assert least(batch=8) == pytest.approx(8 * least(batch=1))
    assert least(batch=8, continuous=True) == pytest.approx(least(batch=1))
