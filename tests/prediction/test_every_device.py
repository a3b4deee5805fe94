"""Every accelerator of the catalog answers for training and generation, or says in a sentence why not."""

import math

import pytest

from sightline.catalog import names
from sightline.errors import SightlineError
from sightline.loading import generation_from_mapping, scenario_from_mapping
from sightline.prediction import predict

GENERATION = {"task": "generate", "batch": 8, "prompt_tokens": 512, "output_tokens": 32}


@pytest.mark.parametrize("device", names("devices"))
def test_training_and_generation_answer_on_one_node_and_several(device):
    for count in (1, 8, 128):
        training = {"task": "pretrain", "sequence_length": 2048, "global_batch": 128}
        asked = {"model": "llama-2-7b", "cluster": f"{count}x {device}", "workload": training}
        try:
            profile = predict(scenario_from_mapping({**asked, "plan": {"micro_batch": 1}}))
        except SightlineError as error:
            _require_sentence(error)
            continue
        assert 0 < profile.step_time_s < math.inf
        assert 0 < profile.mfu < 1
    try:
        generated = predict(
            generation_from_mapping({"model": "llama-2-7b", "cluster": f"1x {device}", "workload": GENERATION})
        )
    except SightlineError as error:
        _require_sentence(error)
        return
    assert 0 < generated.latency_s < math.inf


def _require_sentence(error: SightlineError) -> None:
    if not str(error).startswith(("plan.dtype", "cluster")):
        raise error
