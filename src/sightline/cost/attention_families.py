"""Whose measurements the constants of an engine's attention kernels rest on, phase by phase."""

from typing import Literal

from sightline.cost.decode_attention_constants import PARTS
from sightline.cost.families import evidence_of, family_of
from sightline.operator_profile import Evidence
from sightline.scenario import Device

AttentionPhase = Literal["prefill", "decode", "mla-decode"]
"""Queries of a prompt, of a step against keys and values per head, and of a step against a shared latent."""

PHASE_PARTS = {"prefill": "prefill_attention", "decode": PARTS["mha"], "mla-decode": PARTS["mla"]}
"""The calibration part of each phase."""


def attention_family(device: Device, phase: AttentionPhase) -> str:
    """Return the nearest calibration family of ``device`` with constants of that phase."""
    return family_of(device, PHASE_PARTS[phase])


def attention_evidence(device: Device, phase: AttentionPhase) -> Evidence:
    """What the constants of that phase rest on for ``device``."""
    return evidence_of(device, PHASE_PARTS[phase])
