"""When a generation does not fit: the nearest changes that would, tried and not guessed."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from sightline.profile import Profile
from sightline.scenario import GenerationPlan, GenerationScenario

GIB = 2.0**30
NARROWER = ("fp8", "w4a16")
"""Formats of the weights that are tried."""


def what_would_fit(profile: Profile, profile_of: Callable[[GenerationScenario], Profile]) -> list[str]:
    """Return sentences: what is needed of what there is, and single changes under which it fits."""
    scenario = profile.scenario
    parts = {k: float(v) for k, v in profile.memory_bytes.items()}
    needed, largest = parts.pop("total"), max(parts, key=parts.__getitem__)
    there = float(scenario.cluster.device.memory_bytes * scenario.plan.memory_fraction)
    sentences = [
        f"does not fit: {needed / GIB:.1f} GiB of {there / GIB:.1f} GiB, of which {largest} {parts[largest] / GIB:.1f} GiB"
    ]
    for change, changed in _changes(scenario):
        other = profile_of(changed)
        if other.fits:
            slower = float(other.tpot_s) / float(profile.tpot_s) if profile.tpot_s else 1.0
            total = float(other.memory_bytes["total"]) / GIB
            sentences.append(f"{change} would fit with {total:.1f} GiB, at {slower:.2f} x the time per token")
    if len(sentences) == 1:
        sentences.append("no single change of batch, quantization or tensor_parallel fits")
    return sentences


def _changes(scenario: GenerationScenario) -> Iterator[tuple[str, GenerationScenario]]:
    """Single changes that save memory: narrower weights or cache, more ranks per replica, the largest smaller batch."""
    plan = scenario.plan
    for change, other in _plans(plan):
        yield change, replace(scenario, plan=other)
    batch = int(scenario.workload.batch) // 2
    while batch >= plan.data_parallel * plan.replicas:
        work = replace(scenario.workload, batch=batch)
        yield f"workload.batch: {batch}", replace(scenario, workload=work)
        batch //= 4


def _plans(plan: GenerationPlan) -> Iterator[tuple[str, GenerationPlan]]:
    cache = tuple(word for word in plan.quantization or () if word.startswith("kv-"))
    offered = plan.engine.offers.get("quantization")
    for word in NARROWER:
        if word not in (plan.quantization or ()) and (offered is None or word in offered):
            yield f"quantization: {word}", replace(plan, quantization=(word, *cache))
    if not cache and (offered is None or "kv-fp8" in offered):
        yield "quantization: kv-fp8", replace(plan, quantization=(*(plan.quantization or ()), "kv-fp8"))
    degrees = plan.engine.offers.get("tensor_parallel")
    wider = int(plan.tensor_parallel) * 2
    if plan.replicas % 2 == 0 and (degrees is None or wider in degrees):
        yield f"tensor_parallel: {wider}", replace(plan, tensor_parallel=wider, replicas=plan.replicas // 2)
