"""Every model on every accelerator with every technique is answered in finite numbers that add up, or refused in words.

All pairs of model and technique and of accelerator and technique take minutes (``-m slow``); a sample of them runs always.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_scenarios import training

from sightline import catalog
from sightline.errors import InputError
from sightline.prediction import predict
from sightline.program import write_out

TECHNIQUES: dict[str, dict[str, Any]] = {
    "none": {},
    "tensor": {"tensor_parallel": 2},
    "sequence": {"tensor_parallel": 2, "sequence_parallel": True},
    "pipeline": {"pipeline_parallel": 2},
    "interleaved": {"pipeline_parallel": 2, "virtual_stages": 2},
    "zero bubble": {"pipeline_parallel": 2, "schedule": "zero-bubble"},
    "ring": {"context_parallel": 2},
    "gathered keys": {"context_parallel": 2, "context_exchange": "all-gather"},
    "swapped heads": {"context_parallel": 2, "context_exchange": "all-to-all"},
    "experts": {"expert_parallel": 4},
    "expert tensor": {"tensor_parallel": 2, "expert_tensor_parallel": 2},
    "zero-3": {"zero_stage": 3},
    "offload": {"offload": ["optimizer", "activations"], "zero_stage": 1},
    "full recomputation": {"recompute": "full"},
    "selective recomputation": {"recompute": "selective"},
    "eager": {"attention": "eager"},
    "fp32": {"dtype": "fp32"},
    "fp16": {"dtype": "fp16"},
    "fp8": {"dtype": "fp8"},
    "mxfp8": {"dtype": "mxfp8"},
    "nvfp4": {"dtype": "nvfp4"},
    "muon": {"optimizer": "muon"},
    "dualpipe": {"pipeline_parallel": 2, "schedule": "dualpipe"},
    "single modules again": {"framework": "megatron", "recompute": ["core_attention", "mlp"]},
    "8-bit": {"optimizer": "adamw-8bit"},
    "compiled": {"compile": True},
    "lora": {"adapter": {"kind": "lora", "rank": 16, "targets": "all-linear"}},
    "qlora": {"adapter": {"kind": "qlora", "rank": 16, "targets": "all-linear"}},
}
CONFIGS = Path(os.environ.get("SIGHTLINE_DATA") or Path(__file__).parents[3] / "shared" / "data") / "model_configs"
MODELS, DEVICES = catalog.names("models"), catalog.names("devices")
COMBINATIONS = [
    *((model, DEVICES[i % len(DEVICES)]) for i, model in enumerate(MODELS)),
    *((MODELS[(7 * i + 3) % len(MODELS)], device) for i, device in enumerate(DEVICES)),
]
"""Every model and every accelerator at least once."""


WAYS_OUT = ("allowed", "computes in", "offers")
"""What every refusal of a combination says one of."""


def answered(model: str, device: str, technique: str) -> bool:
    """Whether the combination is predicted and not refused; its numbers, or the sentences of its refusal, are checked."""
    plan = {"micro_batch": 1, **TECHNIQUES[technique]}
    asked: dict[str, Any] = {"sequence_length": 2048, "global_batch": 16}
    if "adapter" in plan:
        asked["task"] = "finetune"
    problems: list[str] = []
    scenario = None
    try:
        scenario = training(model=model, cluster=f"8x {device}", plan=plan, **asked)
    except InputError as refusal:
        problems = list(refusal.problems)
    assert not [sentence for sentence in problems if not any(word in sentence for word in WAYS_OUT)]
    if scenario is None:
        return False
    profile = predict(scenario)
    parts = [*profile.phases.values(), *profile.memory_bytes.values(), profile.energy_per_step_j]
    numbers = np.array([profile.step_time_s, profile.mfu, *parts], dtype=float)
    where = f"{model} on {device} with {technique}"
    assert np.all(np.isfinite(numbers)), where
    assert np.all(numbers >= 0), where
    assert sum(profile.phases.values()) == pytest.approx(profile.step_time_s), where
    # Model FLOPs count every score; causal kernels skip those that nobody sees.
    unseen = sum(row.flops for row in profile.rows if "flash attention" in row.operator) / 2
    counted = sum(row.flops for row in profile.rows)
    assert profile.mfu * (1 - unseen / counted) <= 1, where
    return True


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_a_sample_is_answered_or_refused_in_a_sentence(technique: str) -> None:
    first, step = len(technique) % 7, len(COMBINATIONS) // 5
    for model, device in COMBINATIONS[first::step]:
        answered(model, device, technique)


@pytest.mark.skipif(not CONFIGS.is_dir(), reason=f"no configs in {CONFIGS}; SIGHTLINE_DATA names them")
def test_every_published_config_is_trained() -> None:
    for path in sorted(CONFIGS.glob("*.json")):
        plan = {"micro_batch": 1, "recompute": "full"}
        scenario = training(model=str(path), cluster="64x h100-sxm-80gb", global_batch=64, plan=plan)
        blocks = write_out(scenario).blocks
        added = sum(block.count * float(block.parameters) for block in blocks)
        assert added == pytest.approx(scenario.model.parameters, rel=2e-4), path.name
        assert 0 < predict(scenario).step_time_s < np.inf, path.name


@pytest.mark.slow
@pytest.mark.parametrize("technique", TECHNIQUES)
def test_every_model_and_every_accelerator_is_answered_or_refused_in_a_sentence(technique: str) -> None:
    answers = [answered(model, device, technique) for model, device in COMBINATIONS]
    assert any(answers)
