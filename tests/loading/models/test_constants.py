"""The base of rotary positions and the epsilon of norms: read for launches, and of no effect on predictions."""

import pytest

import sightline as sl
from sightline.errors import InputError
from sightline.loading import scenario_from_mapping
from sightline.loading.models.config import read_model
from sightline.loading.written import to_mapping

LLAMA = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "intermediate_size": 512,
    "vocab_size": 1024,
}
CASE = {
    "cluster": "8x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 512, "global_batch": 64},
    "plan": {"micro_batch": 1},
}


@pytest.mark.parametrize(
    ("stated", "rope_theta", "norm_eps"),
    [
        ({}, None, None),
        ({"rope_theta": 500000.0, "rms_norm_eps": 1e-5}, 5e5, 1e-5),
        ({"rotary_emb_base": 10000, "layer_norm_eps": 1e-6}, 1e4, 1e-6),
        ({"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}, 1e6, None),
        (
            {"rope_parameters": {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}},
            1e6,
            None,
        ),
        ({"rope_theta": [1e4, 1e6], "rms_norm_eps": None}, None, None),
    ],
)
def test_configs_state_them_in_their_own_way(stated, rope_theta, norm_eps):
    model = read_model({**LLAMA, **stated}).model
    assert (model.rope_theta, model.norm_eps) == (rope_theta, norm_eps)
    assert not model.assumed


@pytest.mark.parametrize("value", [0, -1, "high", True])
def test_they_are_numbers_above_zero(value):
    with pytest.raises(InputError, match=r"model\.rope_theta is "):
        read_model({**LLAMA, "rope_theta": value})


def test_no_prediction_depends_on_them():
    plain, stated = (
        sl.predict(sl.load({**CASE, "model": {**LLAMA, **more}})).to_dict()
        for more in ({}, {"rope_theta": 5e5, "rms_norm_eps": 1e-5})
    )
    assert stated.pop("scenario") != plain.pop("scenario")
    assert stated == plain


def test_a_written_scenario_keeps_them():
    scenario = scenario_from_mapping({**CASE, "model": {**LLAMA, "rope_theta": 5e5, "rms_norm_eps": 1e-5}})
    again = scenario_from_mapping(to_mapping(scenario))
    assert again.model == scenario.model
