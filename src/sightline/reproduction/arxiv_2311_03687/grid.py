"""The study's grid of techniques, and the scenario of a step with some of them.

The study switches techniques on one by one and together: ZeRO-2 and -3 (Z2, Z3), offload (O), 4-bit weights (Q),
recomputation (R), FlashAttention (F), LoRA (L), QLoRA (QL); N is none of them.
"""

from collections.abc import Mapping
from typing import Any

from sightline.reproduction.asking import Asked

SEQUENCE = 350
"""Tokens of a sample: the mean of the Alpaca set."""

TECHNIQUES: Mapping[str, Mapping[str, Any]] = {
    "N": {},
    "Z2": {"zero_stage": 2},
    "Z3": {"zero_stage": 3},
    "O": {"offload": "optimizer"},
    "Q": {"quantization": "nf4"},
    "R": {"recompute": "full"},
    "F": {"attention": "flash"},
    "L": {"adapter": {"kind": "lora"}},
    "QL": {"adapter": {"kind": "qlora"}},
}
"""What each letter of the study changes in the plan; offload takes the parameters too where ZeRO-3 splits them."""

PRETRAINING = (
    *("N", "Z2", "Z3", "Z2+O", "Z3+O", "Q", "R", "F"),
    *("R+Z2", "R+Z2+O", "R+Z3", "R+Z3+O", "R+Q", "F+R", "F+Z2", "F+Z3", "F+R+Z2", "F+R+Z2+O", "F+R+Z3", "F+R+Z3+O"),
)
FINETUNING = (
    *("L", "L+F", "L+R", "L+Z2", "L+Z3", "L+Z2+O", "L+Z3+O", "L+F+R", "L+F+R+Z2", "L+F+R+Z3", "L+F+R+Z3+O"),
    *("QL", "QL+F", "QL+R", "QL+Z2", "QL+F+R", "QL+F+R+Z2"),
)
QUICK = frozenset(
    {"N", "Z2", "Z3", "Z2+O", "Q", "R", "F", "F+R", "F+R+Z3", "L", "L+F", "L+Z2", "L+F+R", "QL", "QL+F", "QL+F+R"}
)
"""Rows that a quick run keeps: every switch alone, and some together."""


def plan_of(row: str) -> dict[str, Any]:
    """Return the plan settings of a row such as ``F+R+Z3+O``; attention is eager where F is not on."""
    letters = row.split("+")
    plan: dict[str, Any] = {"zero_stage": 0, "attention": "eager"}
    for letter in letters:
        plan |= TECHNIQUES[letter]
    if "O" in letters and "Z3" in letters:
        plan["offload"] = ["optimizer", "parameters"]
    return plan


def step(
    model: Any,
    cluster: Any,
    techniques: str,
    *,
    batch: int,
    devices: int,
    framework: str = "deepspeed",
    sequence_length: int = SEQUENCE,
    **plan: Any,
) -> Asked:
    """Return the scenario of a step of training or, where ``techniques`` name L or QL, of fine-tuning.

    Args:
        model: Of the catalog, or described.
        cluster: As a scenario has it.
        techniques: The study's letters, such as ``F+R+Z3+O``.
        batch: Samples per device; with Megatron-LM of the only replica, which all devices share.
        devices: In use.
        framework: Megatron-LM splits matrices over all devices.
        sequence_length: Tokens of a sample.
        plan: Further settings.
    """
    is_split = framework == "megatron"
    return {
        "model": model,
        "cluster": cluster,
        "workload": {
            "task": "finetune" if {"L", "QL"} & {*techniques.split("+")} else "pretrain",
            "sequence_length": sequence_length,
            "global_batch": batch * (1 if is_split else devices),
        },
        "plan": {
            **plan_of(techniques),
            "framework": framework,
            "dtype": "bf16",
            "micro_batch": batch,
            **({"tensor_parallel": devices} if is_split else {}),
            **plan,
        },
    }
