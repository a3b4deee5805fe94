"""Why a plan of generation is the best, and what would serve where nothing fits."""

import shlex
from dataclasses import replace

import pytest

from sightline.loading.sources import with_settings
from sightline.planning.search import plan
from sightline.prediction.changes import candidate_changes, changed, settings_of
from sightline.prediction.generation.batch_profile import predict_generation

SERVED = {
    "model": "llama-3.1-8b",
    "cluster": "4x h100-sxm-80gb",
    "workload": {"task": "generate", "batch": 32, "prompt_tokens": 1000, "output_tokens": 200},
    "plan": {"framework": "vllm", "quantization": "none", "disaggregate": "none"},
}
TOO_LARGE = SERVED | {"model": "llama-3.1-70b", "cluster": "1x h100-sxm-80gb"}


@pytest.fixture(scope="module")
def answer():
    return plan(SERVED)


def test_a_loss_is_that_of_the_plan_with_the_change(answer):
    best = answer.plans[0].profile
    assert answer.neighbours
    for one in answer.neighbours:
        change = next(c for c in candidate_changes(best.scenario) if one.set.items() <= settings_of(c).items())
        other = predict_generation(changed(best.scenario, change))
        expected = best.output_tokens_per_s_per_device / other.output_tokens_per_s_per_device - 1
        assert one.loss == (pytest.approx(expected) if other.fits else None)
    known = [one.loss for one in answer.neighbours if one.loss is not None]
    assert known == sorted(known)


def test_only_searched_fields_have_neighbours(answer):
    assert {key.rpartition(".")[2] for one in answer.neighbours for key in one.set} <= set(answer.free)


def test_better_hardware_gives_what_its_prediction_gives(answer):
    best = answer.plans[0].profile
    found = {one.part: one for one in answer.hardware}
    device = best.scenario.cluster.device
    faster = replace(device, memory_bandwidth=2 * device.memory_bandwidth)
    other = predict_generation(replace(best.scenario, cluster=replace(best.scenario.cluster, device=faster)))
    gain = 1 - best.output_tokens_per_s_per_device / other.output_tokens_per_s_per_device
    assert found["device.memory_bandwidth"].gain == pytest.approx(gain)


def test_where_nothing_fits_formats_and_devices_are_named_with_commands():
    unmet = plan(TOO_LARGE)
    assert not unmet.plans
    assert {next(iter(one.set)) for one in unmet.nearest} == {"plan.quantization", "cluster"}
    for one in unmet.nearest:
        words = shlex.split(one.command)
        tried = plan(TOO_LARGE, overrides=[words[i + 1] for i, word in enumerate(words) if word == "--set"])
        assert tried.plans
        assert tried.plans[0].value == pytest.approx(one.plan.value)
        assert "per million tokens" in one.sentence


def test_degrees_change_at_the_expense_of_replicas(answer):
    scenario = answer.plans[0].profile.scenario
    for change in candidate_changes(scenario):
        assert changed(scenario, change).plan.devices == scenario.plan.devices


def test_a_steady_load_is_the_first_that_meets_what_a_batch_sent_at_once_misses():
    many = SERVED | {"workload": SERVED["workload"] | {"batch": 384}}
    unmet = plan(many, ttft="500 ms", tpot="50 ms", overrides=["cluster=2x h100"])
    steady, looser = unmet.nearest
    assert steady.set == {"workload.continuous": True}
    assert "ttft" in looser.set
    words = shlex.split(steady.command)
    assert [words[i + 1] for i, word in enumerate(words) if word == "--ttft"] == ["0.5 s"]
    tried = plan(many, ttft="500 ms", tpot="50 ms", overrides=["cluster=2x h100", "workload.continuous=true"])
    assert tried.plans[0].value == pytest.approx(steady.plan.value)


def test_a_setting_takes_the_place_of_an_earlier_one_of_its_key():
    command = "sightline plan 'my file.yaml' --set cluster='2x h100' --set model=llama-2-7b --ttft '2 s'"
    changed = with_settings(command, {"cluster": "16x h100", "plan.offload": ["optimizer"]})
    assert shlex.split(changed) == [
        *("sightline", "plan", "my file.yaml", "--set", "model=llama-2-7b", "--ttft", "2 s"),
        *("--set", "cluster=16x h100", "--set", "plan.offload=[optimizer]"),
    ]
