"""Number formats between plans and engines: what has to be asked of an engine, and what its arguments say."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sightline.errors import InputError
from sightline.launching.repositories import repository_of
from sightline.loading.models import resolve_model
from sightline.scenario import GenerationScenario
from sightline.scenario.precision import CACHE_BYTES, LOW_PRECISION, ROUTER_DTYPES, WEIGHT_FORMATS

DTYPES: Mapping[str, str] = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""Compute dtypes as engines of PyTorch name them."""
READ_DTYPES: Mapping[str, str] = {
    **{theirs: ours for ours, theirs in DTYPES.items()},
    "half": "fp16",
    "float": "fp32",
    "bf16": "bf16",
    "fp16": "fp16",
    "fp32": "fp32",
    "auto": "",
}
"""And back; empty for the checkpoint's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedFormats:
    """What a scenario asks of an engine beyond what the checkpoint brings."""

    weights: str = ""
    """Format that 16-bit weights are converted to; empty for none."""
    cache: str = ""
    """Format of the cache; empty for the engine's own."""
    notes: tuple[str, ...] = ()


def requested_formats(scenario: GenerationScenario, known: Mapping[str, str]) -> RequestedFormats:
    """Return the formats that a scenario asks for, by the engine's words for those it converts weights to itself."""
    plan, model = scenario.plan, scenario.model
    words = plan.quantization or ()
    weights = next((word for word in words if word in WEIGHT_FORMATS), "")
    if plan.quantization is None and plan.dtype not in DTYPES:
        weights = plan.dtype if plan.dtype in LOW_PRECISION else ""
    published = WEIGHT_FORMATS.get(model.weights, "")
    called = repository_of(model.name) or model.name
    notes = [f"plan.dtype {plan.dtype}: written as the format of the weights"] if plan.dtype not in DTYPES else []
    if plan.quantization is not None and published and WEIGHT_FORMATS.get(weights, "") != published:
        notes.append(
            f"plan.quantization {weights or 'none'}: {called} is published in {model.weights}; put a repository in "
            f"{weights or '16 bits'} there"
        )
    elif weights and not published and weights not in known:
        notes.append(f"plan.quantization {weights}: put a repository whose weights are in that format there")
    notes += [f"plan.quantization {word}: no argument chooses it" for word in words if word in ROUTER_DTYPES]
    cache = next((word for word in words if word in CACHE_BYTES), "")
    return RequestedFormats(weights="" if published else known.get(weights, ""), cache=cache, notes=tuple(notes))


def quantization(weights: str, cache: str, model: str) -> list[str]:
    """Return ``plan.quantization`` of what an engine's arguments say; of the checkpoint's own formats there is none.

    A list that names a format of the cache alone means weights in 16 bits, so the checkpoint's format joins it.
    """
    if not cache:
        return [weights] if weights else []
    return [*filter(None, [weights or published_format(model)]), cache]


def published_format(model: str) -> str:
    """Return the low-precision format that a catalog model's weights are published in; empty for none."""
    try:
        found = resolve_model(model, Path()).model.weights
    except InputError:
        return ""
    return found if found in WEIGHT_FORMATS else ""
