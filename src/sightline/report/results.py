"""The single place where a profile becomes the documented result keys."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sightline.answer import Answer
from sightline.generation_profile import GenerationProfile
from sightline.operator_profile import OperatorProfile
from sightline.profile import Profile
from sightline.scenario import GenerationScenario, OperatorScenario, Scenario


def answer_to_dict(answer: Answer) -> dict[str, Any]:
    """Return the answer to a scenario of any task under its documented result keys."""
    match answer:
        case OperatorProfile():
            return operator_to_dict(answer)
        case GenerationProfile():
            return generation_to_dict(answer)
        case Profile():
            return profile_to_dict(answer)


def generation_to_dict(profile: GenerationProfile) -> dict[str, Any]:
    """Return a generation's profile under the documented result keys, in SI units and plain Python numbers."""
    result: dict[str, Any] = plain(
        {
            "scenario": scenario_to_dict(profile.scenario),
            "source": profile.source,
            "fits": bool(profile.fits),
            "ttft_s": profile.ttft_s,
            "tpot_s": profile.tpot_s,
            "latency_s": profile.latency_s,
            "output_tokens_per_s": profile.output_tokens_per_s,
            "output_tokens_per_s_per_device": profile.output_tokens_per_s_per_device,
            "bottleneck": profile.bottleneck,
            "phases": profile.phases,
            "memory_bytes": profile.memory_bytes,
            "energy_j": profile.energy_j,
            "cost_usd": profile.cost_usd,
            "cost_usd_per_million_tokens": profile.cost_usd_per_million_tokens,
            "interval": profile.interval,
            "evidence": profile.evidence,
            "advice": profile.advice,
            "measurement": profile.measurement or None,
            "warnings": list(dict.fromkeys((*profile.scenario.warnings, *profile.warnings))),
        }
    )
    return {key: value for key, value in result.items() if value is not None}


def operator_to_dict(profile: OperatorProfile) -> dict[str, Any]:
    """Return a single operator's profile under the documented result keys, in SI units and plain Python numbers."""
    result: dict[str, Any] = plain(
        {
            "scenario": scenario_to_dict(profile.scenario),
            "source": profile.source,
            "time_s": profile.time_s,
            "flops": profile.flops,
            "bytes": profile.bytes,
            "flops_per_s": profile.flops_per_s,
            "bytes_per_s": profile.bytes_per_s,
            "bound": profile.bound,
            "interval": profile.interval,
            "evidence": profile.evidence,
            "measurement": profile.measurement,
            "warnings": [*profile.scenario.warnings, *profile.warnings],
        }
    )
    absent = ("bound", "evidence") if profile.source == "measured" else ("measurement",)
    return {key: value for key, value in result.items() if key not in absent}


def profile_to_dict(profile: Profile) -> dict[str, Any]:
    """Return one plan's profile under the documented result keys, in SI units and plain Python numbers."""
    result: dict[str, Any] = {
        "scenario": scenario_to_dict(profile.scenario),
        "source": profile.source,
        "fits": bool(profile.fits),
        "step_time_s": profile.step_time_s,
        "tokens_per_s": profile.tokens_per_s,
        "tokens_per_s_per_device": profile.tokens_per_s_per_device,
        "model_flops_per_s_per_device": profile.model_flops_per_s_per_device,
        "mfu": profile.mfu,
        "hfu": profile.hfu,
        "bottleneck": profile.bottleneck,
        "phases": profile.phases,
        "memory_bytes": profile.memory_bytes,
        "interval": profile.interval,
        "evidence": profile.evidence,
        "advice": profile.advice,
        "warnings": list(dict.fromkeys((*profile.scenario.warnings, *profile.warnings))),
    }
    if profile.memory_peak:
        result["memory_peak"] = profile.memory_peak
    if profile.measurement:
        result["measurement"] = profile.measurement
    if profile.scenario.workload.total_tokens is not None:
        result |= {"run_time_s": profile.run_time_s, "energy_j": profile.energy_j, "cost_usd": profile.cost_usd}
    plain_result: dict[str, Any] = plain(result)
    return plain_result


def scenario_to_dict(scenario: Scenario | OperatorScenario | GenerationScenario) -> dict[str, Any]:
    """Return the fully resolved scenario as the mapping a scenario file would hold."""
    from sightline.loading import to_mapping

    return dict(to_mapping(scenario))


def plain(value: Any) -> Any:
    """Return ``value`` with nothing in it that JSON cannot say: no NumPy types, no tuples, no NaN or infinity."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, set | frozenset):
        return sorted(plain(item) for item in value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def flatten(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one level of dotted keys; lists of plain values stay as they are."""
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
