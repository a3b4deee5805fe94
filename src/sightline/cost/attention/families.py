"""Whose measurements the constants of an engine's attention kernels rest on, phase by phase, and those constants."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from sightline.cost.attention.constants import AttentionConstants, load_prefill_attention
from sightline.cost.attention.decode import PARTS, DecodeAttentionConstants, DecodeKind, load_decode_attention
from sightline.cost.clock import REFERENCE_HZ, clock_hz
from sightline.cost.families import UNMEASURED, evidence_of, family_of
from sightline.profile import Evidence
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


IN_CYCLES = ("latency_s", "split_s", "sequence_s")
"""Times of a kernel's start, of joining and planning its parts. A tile's start waits for memory instead."""


def prefill_constants(device: Device) -> AttentionConstants:
    """The constants of prefill attention on ``device``."""
    family = attention_family(device, "prefill")
    constants = load_prefill_attention(family)
    return constants if family != UNMEASURED else replace(constants, **_times(constants, device))


def decode_constants(device: Device, kind: DecodeKind = "mha") -> DecodeAttentionConstants:
    """The constants of attention of a step on ``device``, against keys and values per head or a shared latent."""
    family = attention_family(device, "decode" if kind == "mha" else "mla-decode")
    constants = load_decode_attention(family, kind)
    return constants if family != UNMEASURED else replace(constants, **_times(constants, device))


def at_clock(constants: Mapping[str, Any], device: Device) -> dict[str, Any]:
    """Constants of several devices together as they are on ``device``: as many cycles at its clock."""
    slower = REFERENCE_HZ / clock_hz(device)
    return {name: value * slower if name in IN_CYCLES else value for name, value in constants.items()}


def _times(constants: AttentionConstants | DecodeAttentionConstants, device: Device) -> dict[str, Any]:
    stated = {name: getattr(constants, name) for name in IN_CYCLES if hasattr(constants, name)}
    return at_clock(stated, device)
