"""The base of rotary positions and the epsilon of norms reach the frameworks, and what is unknown is said."""

import json

import pytest
from launching.launched import SMALL, asked

from sightline.launching import write
from sightline.launching.hugging_face import configuration
from sightline.loading.models.config import read_model

STATED = {**SMALL, "rope_theta": 777.0, "rms_norm_eps": 3e-6}


@pytest.mark.parametrize("framework", ["deepspeed", "fsdp", "transformers"])
def test_config_json_states_them(framework):
    launch = write(asked({"framework": framework}, model=STATED))
    back = read_model(json.loads(launch.files["model/config.json"])).model
    assert (back.rope_theta, back.norm_eps) == (777.0, 3e-6)


def test_torchtitan_gets_them():
    module = write(asked({"framework": "torchtitan"}, model=STATED)).files["model_shape.py"]
    assert "rope_theta=777.0" in module
    assert "norm_eps=3e-06" in module


def test_megatron_gets_them_or_a_sentence():
    stated, silent = (write(asked({"framework": "megatron"}, model=model)) for model in (STATED, SMALL))
    assert "--rotary-base 777" in stated.command
    assert "--norm-epsilon 3e-06" in stated.command
    assert "--rotary-base" not in silent.command
    assert [said for said in silent.without_counterpart if said.startswith("model.rope_theta is not stated")]
    assert not [said for said in stated.without_counterpart if "rotary" in said]


@pytest.mark.parametrize(
    "name",
    [
        "llama-3.1-8b",
        "qwen3-8b",
        "qwen3-30b-a3b",
        "mixtral-8x7b",
        "gemma-3-27b",
        "gemma-2-9b",
        "deepseek-v3",
        "gpt-neox-20b",
    ],
)
def test_the_real_class_takes_them(name):
    transformers = pytest.importorskip("transformers")
    model = asked({"framework": "megatron"}, model=name, cluster="64x h100-sxm-80gb").model
    family, keys = configuration(model)
    taken = getattr(transformers, family)(**keys)
    rope = taken.rope_parameters
    assert rope.get("full_attention", rope)["rope_theta"] == model.rope_theta
    assert (taken.layer_norm_eps if family == "GPTNeoXConfig" else taken.rms_norm_eps) == model.norm_eps
