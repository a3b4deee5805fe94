"""Study files: what is read, and what is refused, every mistake at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_bases import GENERATION, OPERATOR, SERVING, TECHNOLOGY, TRAINING

from sightline.errors import InputError
from sightline.exploration.run import explore

AXES = {"cluster.network.latency": ["1 us", "5 us"]}


def problems(**study):
    with pytest.raises(InputError) as refused:
        explore({"base": TRAINING, "axes": AXES, **study})
    return refused.value.problems


def values(stated, key="cluster.device.memory_bandwidth"):
    answer = explore({"base": TRAINING, "axes": {key: stated}, "report": ["step_time_s"]})
    return answer.axes[key]


def test_all_mistakes_are_said_at_once():
    said = problems(
        axes={"cluster.network.latency": ["3 GHz"], "plan.zero_stage": 7},
        view="idel",
        search=["tensor"],
        report=["step_time"],
        prices={"cluster.device.memry": "1 USD/hour per GB"},
        serch=[],
    )
    assert len(said) == 7
    assert "serch is not a known key - did you mean 'search'?" in said
    assert any("view is 'idel'" in one and "did you mean 'ideal'?" in one for one in said)
    assert any("axes.cluster.network.latency is '3 GHz'" in one for one in said)
    assert any("axes.plan.zero_stage is 7; allowed: a list" in one for one in said)
    assert any("did you mean 'tensor_parallel'?" in one for one in said)
    assert any("did you mean 'step_time_s'?" in one for one in said)
    assert any("did you mean 'cluster.device.memory'?" in one for one in said)


def test_a_misspelt_axis_has_the_nearest_spelling():
    (said,) = problems(axes={"cluster.device.memory_bandwith": ["1 TB/s"]})
    assert "did you mean 'memory_bandwidth'?" in said


def test_an_unknown_node_and_a_negative_area_are_refused():
    said = problems(axes={f"{TECHNOLOGY}.node": ["3.5nm"], f"{TECHNOLOGY}.die_area": ["-5 mm2"]})
    assert "axes.cluster.device.technology.node is '3.5nm'" in said[0]
    assert "axes.cluster.device.technology.die_area is '-5 mm2'; allowed: an area above 0" in said[1]


@pytest.mark.parametrize(
    ("axes", "words"),
    [
        ({f"{TECHNOLOGY}.node": {"from": "7nm", "to": "3nm", "steps": 3}}, "allowed: a list of values"),
        ({f"{TECHNOLOGY}.memory": {"from": "hbm3", "to": "hbm4", "steps": 3}}, "allowed: a list of values"),
        ({"cluster.network.latency": {"from": "1 us", "to": "5 us", "factor": float("nan")}}, "a number above 1"),
        ({"cluster.network.latency": {"from": "1 us", "to": "5 us", "factor": float("inf")}}, "a number above 1"),
        ({"cluster.network.latency": {"from": "1 us", "to": "5 us", "factor": 10**400}}, "a number above 1"),
        ({"cluster.somewhere": {"from": 1, "to": 10**400, "factor": 2}}, "from and to are numbers"),
        ({"cluster.device.architecture": ["1x", "2x"]}, "is not a number"),
    ],
)
def test_ranges_and_multiples_of_what_is_no_number_are_refused(axes, words):
    assert any(words in one for one in problems(axes=axes))


def test_a_pue_below_1_is_refused():
    assert any("allowed: a number of 1 or more" in one for one in problems(electricity={"pue": 0.5}))


def test_a_device_that_cannot_be_built_is_refused_in_the_base():
    base = {
        **TRAINING,
        "cluster": {"devices": "32x h100-sxm-80gb", "device": {"technology": {"node": "5nm", "stacks": 40}}},
    }
    said = problems(base=base)
    assert any("exceeded by" in one for one in said)


def test_too_many_axes_points_and_loads_are_refused():
    many = {f"cluster.device.{key}": ["1x"] for key in ("memory", "memory_bandwidth", "l2", "l2_bandwidth", "tdp")}
    many |= {f"cluster.network.{key}": ["1x"] for key in ("latency", "bandwidth_per_node", "oversubscription")}
    assert problems(axes={**many, "cluster.intra_node.latency": ["1x"]}) == ("axes has 9 keys; allowed: up to 8",)
    steps = {"from": 1e12, "to": 8e12, "steps": 5000}
    said = problems(axes={"cluster.device.memory_bandwidth": steps, "cluster.device.l2_bandwidth": steps})
    assert said == ("axes have 25,000,000 points; allowed: up to 5,000,000",)
    (said,) = problems(base=SERVING, axes={"workload.arrival.rate": list(range(1, 400))})
    assert "399 scenarios" in said


@pytest.mark.parametrize(
    ("study", "words"),
    [
        ({"axes": {}}, "axes is {}"),
        ({"base": "nowhere.yaml"}, "nowhere.yaml"),
        ({"base": 5}, "base is 5"),
        ({"base": {**TRAINING, "sweep": {"plan.micro_batch": [1]}}}, "base has a sweep"),
        ({"axes": {"cluster.device.peak_flops": ["1 PFLOP/s"]}}, "multiples such as"),
        ({"axes": {"cluster.network.latency": {"from": "1 us", "to": "5 us"}}}, "allowed: a list of values"),
        ({"axes": {"cluster.network.latency": {"from": "5 us", "to": "1 us", "factor": 2}}}, "`from` above 0"),
        ({"axes": {"cluster.network.latency": {"from": "1 us", "to": "5 us", "factor": 1}}}, "a number above 1"),
        ({"axes": {"plan.framework": ["megatron"]}, "view": "ideal"}, "view calibrated"),
        ({"axes": {"plan.tensor_parallel": [2]}, "search": ["tensor_parallel"]}, "also an axis"),
        ({"prices": {"cluster.device.memory": "1 USD"}}, "USD/hour per unit"),
        ({"base": OPERATOR, "view": "ideal"}, "calibrated"),
        ({"base": OPERATOR, "search": ["micro_batch"]}, "search applies to training and generation"),
        ({"base": SERVING, "axes": {"cluster.device.memory": ["2x"]}}, "multiples"),
        (
            {"base": {**TRAINING, "cluster": {"devices": ["16x a100-sxm-80gb", "16x h100-sxm-80gb"]}}},
            "heterogeneous devices",
        ),
        ({"axes": {"plan.tensor_parallel": [3, 5]}}, "a divisor of the model's 32 attention heads"),
    ],
)
def test_what_is_wrong_is_a_sentence(study, words):
    said = problems(**study)
    assert any(words in one for one in said), said


def test_ranges_multiply_or_step():
    assert values({"from": "1 TB/s", "to": "8 TB/s", "factor": 2}) == [1e12, 2e12, 4e12, 8e12]
    assert values({"from": "1 TB/s", "to": "3 TB/s", "steps": 3}) == [1e12, 2e12, 3e12]
    assert values({"from": "1x", "to": "4x", "factor": 2}) == ["1x", "2x", "4x"]
    assert values({"from": 1, "to": 3, "factor": 3}, "plan.micro_batch") == [1, 3]


@given(st.floats(1e9, 1e14), st.floats(1.01, 50), st.floats(1.1, 10))
def test_a_range_begins_at_its_start_and_stays_below_its_end(low, ratio, factor):
    from sightline.exploration.own.axes import number_keys, read_axes
    from sightline.loading.checks import Complaints

    key, complaints = "cluster.device.memory_bandwidth", Complaints()
    stated = {key: {"from": low, "to": low * ratio, "factor": factor}}
    (axis,) = read_axes(stated, number_keys("pretrain"), complaints)
    assert axis.values[0] == pytest.approx(low)
    assert axis.values[-1] <= low * ratio * (1 + 1e-8)
    assert axis.values[-1] * factor > low * ratio * (1 - 1e-8)


def test_axes_may_be_nested():
    answer = explore({"base": TRAINING, "axes": {"cluster": {"network": {"latency": ["1 us", "5 us"]}}}})
    assert answer.axes == {"cluster.network.latency": [1e-6, 5e-6]}


def test_a_base_may_be_a_path_relative_to_the_study(tmp_path):
    (tmp_path / "base.yaml").write_text("model: llama-2-7b\ncluster: 1x h100-sxm-80gb\n"
                                        "workload: {task: generate, batch: 1, prompt_tokens: 64, output_tokens: 8}\n")  # fmt: skip
    study = tmp_path / "study.yaml"
    study.write_text("base: base.yaml\naxes: {cluster.device.memory_bandwidth: [1x, 2x]}\n")
    answer = explore(str(study))
    assert (answer.study, len(answer)) == ("study", 2)


def test_settings_change_the_base_and_the_study():
    overrides = {"workload.batch": 2, "view": "both", "axes.workload.prompt_tokens": [64, 128]}
    answer = explore({"base": GENERATION, "axes": AXES}, overrides=overrides)
    assert len(answer) == 2 * 2 * 2
    assert answer.axes["workload.prompt_tokens"] == [64, 128]
    # A key that is set is no axis any more.
    answer = explore({"base": GENERATION, "axes": {**AXES, "workload.batch": [1, 2]}}, overrides={"workload.batch": 2})
    assert list(answer.axes) == list(AXES)


def test_a_quick_study_thins_ranges_and_keeps_what_was_typed():
    axes = {
        "plan.micro_batch": [1, 2, 3, 4],
        "cluster.device.memory_bandwidth": {"from": "1x", "to": "16x", "factor": 2},
    }
    answer = explore({"base": TRAINING, "axes": axes}, quick=True)
    assert answer.axes == {"plan.micro_batch": [1, 2, 3, 4], "cluster.device.memory_bandwidth": ["1x", "4x", "16x"]}


def test_an_unknown_study_has_the_nearest_name():
    with pytest.raises(InputError, match=r"did you mean 'bound-by'\?"):
        explore("boundby")


def test_a_list_of_views_is_told_that_there_is_both():
    with pytest.raises(InputError, match=r"view is \['ideal', 'calibrated'\]; allowed: ideal, calibrated or both$"):
        explore({"base": TRAINING, "axes": {"plan.micro_batch": [1, 2]}, "view": ["ideal", "calibrated"]})


def test_an_axis_of_one_value_is_told_where_single_values_are():
    with pytest.raises(InputError, match=r"plan.micro_batch of the base"):
        explore({"base": TRAINING, "axes": {"plan.micro_batch": 4}})


def test_devices_that_cannot_be_built_are_counted_by_limit():
    cluster = {"devices": "8x h100-sxm-80gb", "device": {"technology": {"node": "3nm", "memory": "hbm4", "stacks": 6}}}
    axes = {f"{TECHNOLOGY}.die_area": ["1 mm2", "2 mm2", "900 mm2", "800 mm2"], f"{TECHNOLOGY}.stacks": [6, 1000]}
    answer = explore({"base": {**TRAINING, "cluster": cluster}, "axes": axes})
    said = [one for one in answer.warnings if "invalid point" in one]
    assert any("area exceeded by" in one and "1 mm2" in one for one in said)
    assert any("the reticle allows" in one for one in said)
