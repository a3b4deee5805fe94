"""What lists and links say of stored runs."""

import pytest

import sightline as sl
from sightline.answers.labels import texts_of_scenario
from sightline.loading import to_mapping
from sightline.web.request import Asked

SCENARIO = {
    "name": "a step",
    "model": "llama-2-7b",
    "cluster": "8x a800-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 350, "global_batch": 16},
}
GENERATION = {
    "model": "llama-2-7b",
    "cluster": "1x h100-sxm-80gb",
    "workload": {"task": "generate", "batch": 2, "prompt_tokens": 128, "output_tokens": 16},
}


@pytest.mark.parametrize(
    ("scenario", "changed"),
    [
        (SCENARIO, {}),
        (SCENARIO, {"model.num_hidden_layers": 12}),
        (SCENARIO, {"cluster.device.memory_bandwidth": "3 TB/s"}),
        (SCENARIO, {"model.num_hidden_layers": 12, "cluster.network.latency": "9 us", "plan.zero_stage": 2}),
        (GENERATION, {}),
    ],
)
def test_a_stored_scenario_comes_back_from_an_address(scenario, changed):
    stored = to_mapping(sl.load(scenario, changed))
    texts = texts_of_scenario(stored)
    assert to_mapping(Asked(texts).scenario()) == stored
    assert (texts["model"] == "llama-2-7b") == ("model.num_hidden_layers" not in changed)
    assert (texts["cluster"] == scenario["cluster"]) == (not any(key.startswith("cluster") for key in changed))


def test_a_scenario_that_cannot_be_read_stays_as_it_is():
    assert texts_of_scenario({"model": {"name": "gone"}, "workload": {"task": "else"}}) == {
        "model": '{"name": "gone"}',
        "workload.task": "else",
    }
