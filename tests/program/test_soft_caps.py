"""Soft caps: nothing without them, three kernels and a kept tensor with them, in every spelling."""

import json
from pathlib import Path
from typing import Any

import pytest
from training_scenarios import training

from sightline.prediction import predict
from sightline.program import Operator, write_out
from sightline.scenario import Scenario


def asked(model: Any = "gemma-2-9b", **plan: Any) -> Scenario:
    return training(model=model, plan={"micro_batch": 1, **plan}, sequence_length=4096)


def caps(scenario: Scenario) -> list[Operator]:
    blocks = write_out(scenario).blocks
    return [op for block in blocks for op in (*block.forward, *block.backward) if op.name.startswith("capped")]


def test_models_without_caps_have_none_of_it() -> None:
    assert not caps(asked("llama-3-8b", attention="eager"))
    assert not caps(asked({"same_as": "gemma-2-9b", "score_cap": 0, "logit_cap": 0}, attention="eager"))


def test_fused_attention_caps_on_the_way_and_logits_in_kernels_of_their_own() -> None:
    assert [op.name for op in caps(asked())] == ["capped logits", "capped logits gradient"]
    # Of two kinds of layers.
    assert len(caps(asked(attention="eager"))) == 2 + 2 * 2


def test_caps_cost_time_and_memory() -> None:
    bare, capped = (
        predict(asked({"same_as": "gemma-2-9b", "score_cap": cap, "logit_cap": cap}, attention="eager"))
        for cap in (0.0, 30.0)
    )
    assert capped.step_time_s > bare.step_time_s
    logits = 4096 * 256000
    scores = 42 * 16 * 4096**2
    kept = capped.memory_bytes["activations"] - bare.memory_bytes["activations"]
    assert kept == pytest.approx(2.0 * (logits + scores))


def test_tensor_parallel_ranks_cap_their_share() -> None:
    alone, shared = (
        training(model="gemma-2-9b", cluster=f"{t}x h100-sxm-80gb", plan={"micro_batch": 1, "tensor_parallel": t})
        for t in (1, 4)
    )
    assert caps(shared)[0].bytes == pytest.approx(caps(alone)[0].bytes / 4)


@pytest.mark.parametrize("value", [0.0, None])
def test_published_configs_switch_a_default_off(value: float | None, tmp_path: Path) -> None:
    config = {
        "model_type": "gemma2",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 96,
        "vocab_size": 97,
        "final_logit_softcapping": value,
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    model = asked(str(path)).model
    assert (model.score_cap, model.logit_cap) == (50.0, 0.0)
