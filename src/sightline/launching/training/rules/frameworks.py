"""Frameworks of training for which a launch is written."""

from typing import Final

SCRIPTED: Final = ("deepspeed", "fsdp", "transformers")
"""Those that run the training script of a launch."""
WRITTEN: Final = ("megatron", "torchtitan", *SCRIPTED)
