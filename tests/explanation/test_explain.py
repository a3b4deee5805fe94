"""What limits a scenario or a run, how far each limit is, and which changes help: sums, gains and refusals."""

import json
import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import right_scenarios
from training_scenarios import training

import sightline as sl
from sightline.answers.analyses import better
from sightline.answers.changes import NOTHING_FITS as NO_CHANGE_FITS
from sightline.explanation.advice import NOTHING_FITS, NOTHING_HELPS, later_memory_sentences, memory_sentences
from sightline.loading.loader import read_overrides
from sightline.prediction.changes import decisions
from sightline.quantities import GIB

DEEP = {
    "model": "llama-2-7b",
    "cluster": "8x a100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 64},
    "plan": {"framework": "megatron", "tensor_parallel": 8, "micro_batch": 1, "recompute": "full"},
}
"""Split over far more devices than it needs, and computed twice."""
GENERATION = {
    "model": "llama-3.1-8b",
    "cluster": "2x h100-sxm-80gb",
    "workload": {"task": "generate", "batch": 8, "prompt_tokens": 512, "output_tokens": 64},
    "plan": {"framework": "vllm", "tensor_parallel": 1},
}
LOAD = {
    "model": "llama-3.1-8b",
    "cluster": "1x h100-sxm-80gb",
    "workload": {
        "task": "serve",
        "requests": {"count": 40, "prompt_tokens": 512, "output_tokens": 64},
        "arrival": {"process": "poisson", "rate": 4},
    },
    "plan": {"framework": "vllm"},
}
TOO_LARGE = {**DEEP, "plan": {"framework": "megatron", "micro_batch": 8}}
DOES_NOT_FIT = "examples/llama-2-7b-does-not-fit.yaml"
OPERATOR = {
    "cluster": "1x h100-sxm-80gb",
    "workload": {"task": "operator", "operator": "matmul", "m": 4096, "n": 4096, "k": 4096, "dtype": "bf16"},
}
UNEVEN = {
    "model": "llama-3.1-8b",
    "cluster": "8x h100-sxm-80gb",
    "workload": {
        "task": "finetune",
        "sequence_length": 4096,
        "global_batch": 128,
        "lengths": {"distribution": "lognormal", "mean": 400, "cv": 1.5},
    },
    "plan": {"framework": "transformers", "adapter": "lora"},
}
SLOW_LOAD = pytest.param(LOAD, marks=pytest.mark.slow)
"""Many simulations."""
EVERY_TASK = (DEEP, TOO_LARGE, GENERATION, SLOW_LOAD, OPERATOR)


@pytest.fixture(autouse=True)
def _own_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path / "runs"))


def _whole(scenario):
    answer = sl.simulate(scenario, intervals=False) if scenario.workload.task == "serve" else sl.predict(scenario)
    return answer.whole_s


def _asked_again(command):
    """The time that the command of an advice predicts."""
    words = shlex.split(command)
    changes = [words[at + 1] for at, word in enumerate(words) if word == "--set"]
    return _whole(sl.load(words[2], read_overrides(changes)))


@pytest.mark.parametrize("asked", EVERY_TASK, ids=lambda asked: asked["workload"]["task"])
def test_limits_and_phases_sum_to_the_whole_and_none_is_farther_than_it(asked):
    found = sl.explain(sl.load(asked))
    assert sum(one.time_s for one in found.limits) == pytest.approx(found.whole_s)
    assert sum(one.share for one in found.limits) == pytest.approx(1.0)
    assert [one.time_s for one in found.limits] == sorted((one.time_s for one in found.limits), reverse=True)
    assert all(0 < one.alone_s <= found.whole_s for one in found.limits if one.alone_s is not None)
    if found.phases:
        assert sum(found.phases.values()) == pytest.approx(found.whole_s)
    if found.rows:
        assert sum(row.exposed_s for row in found.rows) == pytest.approx(found.whole_s)


@pytest.mark.parametrize("asked", [DEEP, GENERATION, SLOW_LOAD], ids=lambda asked: asked["workload"]["task"])
def test_a_gain_is_the_difference_of_two_predictions_and_its_command_says_so(asked, tmp_path):
    file = tmp_path / "asked.yaml"
    file.write_text(json.dumps(asked))
    found = sl.explain(file)
    before = _whole(sl.load(file))
    assert found.advice
    for one in found.advice:
        assert one.gain_s == pytest.approx(before - _whole(sl.load(file, one.set)), rel=1e-9)
        assert one.gain_s == pytest.approx(before - _asked_again(one.command), rel=1e-9)
        assert one.gain == pytest.approx(one.gain_s / before)


def test_three_changes_are_of_three_decisions_and_the_best_comes_first():
    found = sl.explain(sl.load(DEEP))
    assert 1 < len(found.advice) <= 3
    gains = [one.gain_s for one in found.advice]
    assert gains == sorted(gains, reverse=True)
    about = [key for one in found.advice for key in decisions(one.set)]
    assert len(about) == len(set(about))


def test_a_sentence_has_the_change_its_gain_and_the_memory_it_needs():
    first = sl.explain(sl.load(DEEP)).advice[0]
    assert f"{100 * first.gain:.0f} % less" in first.sentence
    assert "GiB of 80.0 GiB" in first.sentence
    assert "80 %:" in first.sentence
    assert next(iter(first.set)).removeprefix("plan.") in first.sentence


def test_changes_of_formats_are_said_to_change_the_numerics():
    found = sl.explain(sl.load(GENERATION)).advice
    formats = [one for one in found if "plan.quantization" in one.set]
    assert formats
    assert all("numerics" in one.sentence for one in formats)


def test_an_eager_engine_is_advised_graphs():
    served = {"model": "qwen3-8b", "cluster": "1x h100-sxm-80gb", "plan": {"framework": "vllm", "cuda_graphs": False}}
    work = {"task": "generate", "batch": 1, "prompt_tokens": 1000, "output_tokens": 100}
    assert sl.explain(sl.load({**served, "workload": work})).advice[0].set == {"plan.cuda_graphs": True}


def test_a_well_tuned_plan_is_told_that_nothing_helps():
    found = sl.explain("examples/llama-2-7b-zero2-8xa800.yaml")
    assert not found.advice
    assert NOTHING_HELPS in found.sentences


def test_two_changes_are_advised_together_where_neither_helps_alone():
    file = "examples/gpt-3-175b-1024xa100.yaml"
    first = sl.explain(file).advice[0]
    assert len(first.set) == 2
    before, both = sl.predict(sl.load(file)), sl.predict(sl.load(file, first.set))
    assert both.fits
    assert before.step_time_s - both.step_time_s == pytest.approx(first.gain_s, rel=1e-9)
    for key, value in first.set.items():
        alone = sl.predict(sl.load(file, {key: value}))
        assert not alone.fits or before.step_time_s - alone.step_time_s < first.gain_s / 2


@pytest.mark.parametrize(
    "asked",
    [TOO_LARGE, pytest.param({**LOAD, "model": "llama-2-70b"}, marks=pytest.mark.slow)],
    ids=["training", "load"],
)
def test_what_does_not_fit_is_told_what_makes_it_fit(asked):
    found = sl.explain(sl.load(asked))
    assert found.answer.fits is False
    assert found.advice
    for one in found.advice:
        again = sl.load(asked, one.set)
        answer = sl.simulate(again, intervals=False) if again.workload.task == "serve" else sl.predict(again)
        assert answer.fits
        assert one.sentence.startswith("It does not fit")


def test_what_no_change_makes_fit_is_sent_to_what_tries_more():
    adapters = {
        "model": "llama-2-13b",
        "cluster": "4x rtx-4090",
        "workload": {"task": "finetune", "sequence_length": 350, "global_batch": 16},
        "plan": {"framework": "transformers", "adapter": "lora"},
    }
    found = sl.explain(sl.load(adapters))
    assert found.answer.fits is False
    assert not found.advice
    assert NOTHING_FITS in found.sentences
    assert NO_CHANGE_FITS in better(found).made[0].lines


def test_of_a_tiny_operator_the_start_is_named_as_what_takes_the_time():
    tiny = {**OPERATOR, "workload": {**OPERATOR["workload"], "m": 16, "n": 16, "k": 16}}
    assert "launch overhead" in " ".join(sl.explain(sl.load(tiny)).sentences)
    assert not [one for one in sl.explain(sl.load(tiny)).sentences if "Memory bandwidth takes" in one]
    assert "nearly all" not in " ".join(sl.explain(sl.load(OPERATOR)).sentences)


def test_what_frees_memory_is_predicted():
    found = sl.explain(sl.load(DOES_NOT_FIT))
    before = sl.predict(sl.load(DOES_NOT_FIT)).memory_bytes["total"]
    said = next(one for one in found.sentences if "fullest device" in one)
    freed = re.findall(r"([\w]+): (\S+?) frees ([\d.]+) GiB", said)
    assert freed
    for key, value, size in freed:
        after = sl.predict(sl.load(DOES_NOT_FIT, [f"plan.{key}={value}"])).memory_bytes["total"]
        assert float(size) == pytest.approx((before - after) / GIB, abs=0.06)


def test_where_the_framework_is_not_named_a_change_keeps_the_one_that_answered():
    asked = {**DEEP, "plan": {key: value for key, value in DEEP["plan"].items() if key != "framework"}}
    found = sl.explain(sl.load(asked))
    own = found.scenario["plan"]["framework"]
    for one in found.advice:
        assert sl.load(asked, one.set).plan.framework.name == own


def test_advice_names_the_micro_batch_that_is_chosen_otherwise_where_it_is_open():
    asked = {**DEEP, "plan": {key: value for key, value in DEEP["plan"].items() if key != "micro_batch"}}
    found = sl.explain(sl.load(asked))
    before = sl.predict(sl.load(asked))
    for one in found.advice:
        after = sl.predict(sl.load(asked, one.set))
        assert one.gain_s == pytest.approx(before.step_time_s - after.step_time_s, rel=1e-9)
        chosen = int(after.scenario.plan.micro_batch)
        changed = chosen != before.scenario.plan.micro_batch
        assert one.set.get("plan.micro_batch") == (chosen if changed else None)
        assert (f"micro_batch: {chosen}" in one.sentence) == changed
        assert (f"plan.micro_batch={chosen}" in one.command) == changed


@pytest.mark.slow
def test_an_anchor_corrects_the_whole_and_the_gains():
    scenario = sl.load(DEEP)
    plain = sl.explain(scenario)
    known = sl.anchored(sl.load({**DEEP, "measured": {"step_time_s": 1.2 * plain.whole_s}}))
    found = sl.explain(scenario, anchor=known)
    assert found.whole_s == pytest.approx(sl.predict(scenario, anchor=known).step_time_s)
    assert found.whole_s > plain.whole_s
    for one in found.advice:
        after = sl.predict(sl.load(DEEP, one.set), anchor=known).step_time_s
        assert one.gain_s == pytest.approx(found.whole_s - after, rel=1e-9)


def test_the_answer_is_plain_json():
    said = sl.explain(sl.load(DEEP)).to_dict()
    keys = {"limits", "rows", "advice", "unmatched_s", "launch_bound_s", "input_wait_s", "whole", "whole_s"}
    assert keys <= said.keys()
    assert json.loads(json.dumps(said)) == said
    assert {"set", "gain_s", "gain", "sentence", "command", "risks", "memory_bytes"} == said["advice"][0].keys()
    assert {"limit", "time_s", "share", "alone_s"} == said["limits"][0].keys()


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("20990101", "no run '20990101'"),
        ("latest", "is empty"),
        ("nothing.yaml", "'nothing.yaml'"),
        ("examples/sweep-llama-2-7b.yaml", "has 12 results"),
        ("examples/many.csv#99", "the file has"),
        (["examples/many.csv", "examples/operators.yaml"], "is not a trace"),
        (7, "not int"),
    ],
)
def test_wrong_requests_end_in_one_sentence(asked, sentence):
    with pytest.raises(sl.InputError, match=sentence.replace("(", r"\(")):
        sl.explain(asked)


def test_a_mapping_and_a_prediction_say_the_same_as_the_scenario():
    scenario = sl.load(GENERATION)
    found = sl.explain(scenario)
    assert sl.explain(GENERATION).to_dict() == found.to_dict()
    assert sl.explain(sl.predict(scenario)).to_dict() == found.to_dict()


def test_a_prediction_of_many_plans_is_refused():
    scenario = sl.load(DEEP)
    many = replace(scenario, plan=replace(scenario.plan, micro_batch=np.array([1, 2])))
    answer = sl.predict(many)
    with pytest.raises(sl.InputError, match="explain needs one"):
        sl.explain(answer)
    assert sl.explain(answer[0]).whole_s == pytest.approx(answer[0].step_time_s)


def test_settings_of_a_result_are_refused(tmp_path):
    file = tmp_path / "result.json"
    file.write_text(json.dumps(sl.predict(sl.load(GENERATION)).to_dict()))
    assert sl.explain(file).whole == "latency_s"
    with pytest.raises(sl.InputError, match="holds a result"):
        sl.explain(file, settings=["plan.tensor_parallel=2"])


def test_a_scenario_for_something_else_than_a_trace_is_refused():
    with pytest.raises(sl.InputError, match="is not a trace"):
        sl.explain(sl.load(OPERATOR), scenario="examples/llama-2-7b-zero2-8xa800.yaml")


def test_settings_of_a_trace_without_a_scenario_are_refused():
    with pytest.raises(sl.InputError, match="--scenario FILE"):
        sl.explain("tests/traces/recorded/eager.json.gz", settings=["plan.micro_batch=2"])


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(right_scenarios())
def test_any_scenario_is_explained(mapping):
    found = sl.explain(sl.load(mapping))
    assert sum(one.time_s for one in found.limits) == pytest.approx(found.whole_s)
    assert sum(row.exposed_s for row in found.rows) == pytest.approx(found.whole_s)
    assert all(one.alone_s <= found.whole_s for one in found.limits if one.alone_s is not None)
    assert len(found.advice) <= 3
    if found.answer.fits:
        assert all(one.gain > 0 for one in found.advice)


@pytest.mark.parametrize(("room", "sentences"), [(2.0, 0), (1.0, 2), (0.5, 1)])
def test_memory_that_is_tight_may_still_run_out_later(room, sentences):
    held = sl.predict(training(model="gpt-125m", plan={"framework": "deepspeed", "micro_batch": 1}))
    ends = tuple(float(held.memory_bytes["total"]) * end for end in (0.95, 1.05))
    near = held.replace(
        usable_bytes=float(held.memory_bytes["total"]) * room,
        fits=room >= 1.0,
        interval={"memory_bytes.total": ends},
    )
    assert len(list(memory_sentences(near))) == sentences


def test_the_longest_samples_need_more_memory_than_a_usual_micro_batch():
    said = " ".join(later_memory_sentences(sl.predict(sl.load(UNEVEN))))
    assert "4,096 tokens" in said
    needed = [float(found) for found in re.findall(r"needs ([\d.]+) GiB", said)]
    assert needed[1] < 0.9 * needed[0]
    even = {**UNEVEN, "workload": {"task": "finetune", "sequence_length": 4096, "global_batch": 128}}
    assert "usual micro-batch" not in " ".join(later_memory_sentences(sl.predict(sl.load(even))))
    assert not list(later_memory_sentences(sl.predict(sl.load(GENERATION))))


def test_waiting_for_the_longest_sample_is_a_limit_of_its_own_and_has_remedies():
    found = sl.explain(UNEVEN)
    limits = {one.limit: one.time_s for one in found.limits}
    (waits_s,) = (row.time_s for row in found.rows if row.module == "samples")
    assert limits["longest_sample"] == pytest.approx(waits_s)
    assert waits_s > 10 * limits["network"]
    assert sum(limits.values()) == pytest.approx(found.whole_s)
    (said,) = (sentence for sentence in found.sentences if "longest samples" in sentence)
    assert "pack" in said
    assert "cut samples" in said
    assert "batches of about equal length" in said
    assert len(found.to_dict()["advice"]) == len(found.advice)
    (packed,) = (one for one in found.advice if "workload.packing" in one.set)
    rates = [sl.predict(sl.load(UNEVEN, settings)).tokens_per_s for settings in ({}, packed.set)]
    assert packed.gain == pytest.approx(1.0 - rates[0] / rates[1])
    even = sl.explain({**UNEVEN, "workload": {**UNEVEN["workload"], "lengths": 400}})
    assert "longest_sample" not in {one.limit for one in even.limits}
