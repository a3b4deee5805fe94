"""What every face of a profile shows, gathered once: headline figures, parts of the step, parts of the memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.profile import GENERATION, MEMORY_PARTS, TRAINING, Profile
from sightline.profile.results import flatten, profile_to_dict, scenario_to_dict
from sightline.report import units
from sightline.scenario import CollectiveOperation, GenerationScenario, OperatorScenario, Plan, Scenario

_USUAL = (("batch", 1), ("per_token", 1), ("library", "nccl"), ("causal", False), ("latent", False))
"""Values of an operator's keys that go without saying."""
Asked = Scenario | OperatorScenario | GenerationScenario

LABELS = {
    "communication_exposed": "communication, exposed",
    "pipeline_bubble": "pipeline bubble",
    "kv_cache": "KV cache",
}
"""Names of phases and memory parts for people, where they differ from the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a whole: its key, its name for people, its size and its share."""

    key: str
    label: str
    value: float
    share: float


def title(scenario: Asked) -> str:
    """Return the scenario's name, or the model or operator and what it runs on."""
    cluster = scenario.cluster
    if not isinstance(scenario, OperatorScenario):
        return scenario.name or f"{scenario.model.name} on {cluster.devices} x {cluster.device.name}"
    count = f"{cluster.devices} x " if isinstance(scenario.workload, CollectiveOperation) else ""
    return scenario.name or f"{operation(scenario)} on {count}{cluster.device.name}"


def operation(scenario: OperatorScenario) -> str:
    """Return an operator with its sizes, such as ``matmul m 4096, n 4096, k 4096, bf16``."""
    keys = {k: v for k, v in scenario_to_dict(scenario)["workload"].items() if (k, v) not in _USUAL}
    sizes = {k: v for k, v in keys.items() if k != "bytes" and isinstance(v, int | float) and v is not True}
    parts = [f"{key.replace('_', ' ')} {size:,}" for key, size in sizes.items()]
    parts += [units.size(keys["bytes"])] if "bytes" in keys else []
    parts += [str(keys[key]) for key in ("format", "dtype", "layout", "library", "version") if key in keys]
    parts += [f"cache {keys['kv_dtype']}"] if "kv_dtype" in keys else []
    parts += [flag for flag in ("causal", "latent") if keys.get(flag) is True]
    return f"{keys['operator'].replace('_', '-')} {', '.join(parts)}"


def subtitle(scenario: Scenario) -> tuple[str, str]:
    """Return two lines: what runs on what, and how."""
    plan, cluster, workload = scenario.plan, scenario.cluster, scenario.workload
    degrees = (
        ("tp", plan.tensor_parallel),
        ("pp", plan.pipeline_parallel),
        ("cp", plan.context_parallel),
        ("dp", plan.data_parallel),
        ("ep", plan.expert_parallel),
        ("etp", plan.expert_tensor_parallel),
    )
    layout = [f"{name} {degree}" for name, degree in degrees if degree != 1] or ["one device"]
    extras = [f"ZeRO-{plan.zero_stage}"] if plan.zero_stage else []
    extras += [f"{plan.virtual_stages} virtual stages"] if plan.virtual_stages != 1 else []
    extras += ["sequence parallel"] if plan.sequence_parallel else []
    extras += [f"{plan.recompute} recomputation"] if plan.recompute != "none" else []
    extras += _techniques(plan)
    what = (
        f"{scenario.model.name} ({units.count(scenario.model.parameters)})",
        f"{cluster.devices:,} x {cluster.device.name}",
        f"batch {workload.global_batch:,} x {workload.sequence_length:,} tokens",
    )
    how = (
        f"{plan.framework.name} {plan.framework.version}".strip(),
        ", ".join(layout + extras),
        f"micro-batch {plan.micro_batch}",
        f"{plan.dtype}, {plan.attention} attention",
    )
    return " · ".join(what), " · ".join(how)


def _techniques(plan: Plan) -> list[str]:
    """What is frozen, quantized, moved to the host, compiled or scheduled otherwise, a phrase each."""
    said = [] if plan.adapter is None else [f"{plan.adapter.kind} of rank {plan.adapter.rank}"]
    said += [f"{plan.quantization} weights"] if plan.quantization != "none" else []
    said += [f"{' and '.join(sorted(plan.offload))} offloaded"] if plan.offload else []
    said += (
        [f"{plan.prediction_layers:d} layer{'s' if plan.prediction_layers != 1 else ''} of multi-token prediction"]
        if plan.prediction_layers
        else []
    )
    said += [str(plan.optimizer)] if plan.optimizer != "adamw" else []
    said += [f"{plan.schedule} schedule"] if plan.schedule in ("zero-bubble", "dualpipe") else []
    said += [f"states shared by {plan.data_parallel_shard:g}"] if plan.data_parallel_shard is not None else []
    return said + (["compiled"] if plan.compile else [])


def phases(profile: Profile) -> list[Part]:
    """Return the phases of the step that take any time, in the order they are documented."""
    return parts(TRAINING.phases, profile.phases, float(profile.step_time_s))


def memory(profile: Profile) -> list[Part]:
    """Return the parts of the fullest device's memory that hold anything."""
    return parts(MEMORY_PARTS, profile.memory_bytes, float(profile.scenario.cluster.device.memory_bytes))


def modules(profile: Profile) -> list[tuple[str, dict[str, float]]]:
    """Return seconds by module and phase, the module that takes longest first."""
    table: dict[str, dict[str, float]] = {}
    for row in profile.rows:
        cell = table.setdefault(row.module, {})
        cell[row.phase] = cell.get(row.phase, 0.0) + float(row.exposed_s)
    ranked = sorted(table.items(), key=lambda item: -sum(item[1].values()))
    return [(module, times) for module, times in ranked if sum(times.values()) > 0]


def run_figures(profile: Profile) -> list[tuple[str, str]]:
    """Return time, energy and rent of the whole run, as far as they are known."""
    figures = []
    if profile.run_time_s is not None:
        figures.append(("run time", units.seconds(float(profile.run_time_s))))
    if profile.energy_j is not None:
        figures.append(("energy", units.energy(float(profile.energy_j))))
    if profile.cost_usd is not None:
        figures.append(("rent", units.money(float(profile.cost_usd))))
    return figures


def measured_sentences(profile: Profile) -> list[str]:
    """Return, for each figure that somebody measured, how far the prediction is from it."""
    measured, predicted = flatten(profile.scenario.measured), flatten(profile_to_dict(profile))
    source = f" ({measured['source']})" if "source" in measured else ""
    sentences = []
    for key, value in measured.items():
        if isinstance(value, int | float) and isinstance(predicted.get(key), int | float) and value:
            difference = 100 * (float(predicted[key]) / float(value) - 1)
            sentences.append(
                f"measured {key} {units.digits(float(value), 4)}{source}: predicted is {difference:+.1f} %"
            )
    return sentences


def fit_sentence(profile: Profile) -> str:
    """Return whether the fullest device's memory is enough, with both figures."""
    verdict = "fits" if profile.fits else "does not fit"
    return f"{verdict}: {units.gib(float(profile.memory_bytes['total']))} of {units.gib(usable_bytes(profile))}"


def usable_bytes(profile: Profile) -> float:
    """Return the bytes of a device that may be filled: all of them, or the share that an engine takes."""
    there = float(profile.scenario.cluster.device.memory_bytes)
    if profile.task is GENERATION:
        return there * float(profile.scenario.plan.memory_fraction)
    return there


COMPARED = ("step", "tokens/s", "MFU", "memory", "fits", "bound by")
"""Headings of a table with a line per training scenario."""


def compared(profile: Profile) -> tuple[str, ...]:
    """Return a training scenario's cells under ``COMPARED``."""
    return (
        units.seconds(float(profile.step_time_s)),
        units.digits(float(profile.tokens_per_s)),
        units.percent(float(profile.mfu)),
        units.gib(float(profile.memory_bytes["total"])),
        "yes" if profile.fits else "no",
        str(profile.bottleneck),
    )


def differing(scenarios: Sequence[Asked]) -> list[dict[str, Any]]:
    """Return, per scenario, only the keys whose values are not the same in all of them."""
    flat = [flatten({k: v for k, v in scenario_to_dict(s).items() if k != "measured"}) for s in scenarios]
    keys = dict.fromkeys(key for mapping in flat for key in mapping)
    telling = [key for key in keys if len({repr(mapping.get(key)) for mapping in flat}) > 1]
    return [{key: mapping.get(key) for key in telling} for mapping in flat]


def variant_labels(scenarios: Sequence[Asked]) -> list[str]:
    """Return a short, distinct label per scenario: its name, or what sets it apart when names repeat."""
    names = [title(s) for s in scenarios]
    if len(set(names)) == len(names):
        return names
    labels = [_variant(keys) or name for keys, name in zip(differing(scenarios), names, strict=True)]
    seen: dict[str, int] = {}
    for position, label in enumerate(labels):
        seen[label] = seen.get(label, 0) + 1
        labels[position] = label if seen[label] == 1 else f"{label} ({seen[label]})"
    return labels


def line_labels(scenarios: Sequence[Asked], axis: str) -> list[str]:
    """Return a label per scenario that is the same for all that differ in the key ``axis`` alone."""
    names = [title(s) for s in scenarios]
    others = [{k: v for k, v in keys.items() if k != axis} for keys in differing(scenarios)]
    variants = [_variant({k: v for k, v in keys.items() if k != "name"}) for keys in others]
    if len(set(names)) == 1:
        return [variant or name for variant, name in zip(variants, names, strict=True)]
    if len(set(names)) == len(set(zip(names, variants, strict=True))):
        return names
    return [", ".join(filter(None, pair)) for pair in zip(names, variants, strict=True)]


_MAIN_KEYS = ("name", "plan.", "workload.")
_DERIVED = ("plan.data_parallel", "plan.replicas")
_NAMES = ("model.name", "cluster.name")


def _variant(keys: Mapping[str, Any]) -> str:
    """Name what differs; derived degrees and the figures of a model or device only where nothing else differs."""
    there = {k: v for k, v in keys.items() if v is not None}
    plain = {k: v for k, v in there.items() if k.startswith(_MAIN_KEYS) and k not in _DERIVED}
    whole = {k: v for k, v in there.items() if k in _NAMES}
    chosen = {**whole, **plain} or there
    words = {k: " + ".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in chosen.items()}
    return ", ".join(v if k in ("name", *_NAMES) else f"{k.rpartition('.')[2]} {v}" for k, v in words.items())


def parts(keys: Iterable[str], values: Mapping[str, Any], whole: float) -> list[Part]:
    """Return the parts of ``whole`` that are more than nothing, in the order of ``keys``."""
    return [
        Part(key=key, label=LABELS.get(key, key), value=float(values[key]), share=float(values[key]) / whole)
        for key in keys
        if float(values.get(key, 0.0)) != 0.0
    ]


def interval_sentences(profile: Profile) -> list[str]:
    """Say where four in five measurements of the step lie and what that rests on; nothing where nobody knows."""
    if "step_time_s" not in profile.interval:
        return []
    low, high = (units.seconds(float(bound)) for bound in profile.interval["step_time_s"])
    return [f"80 % interval {low} to {high}; this framework on this device: {profile.evidence['framework']}"]
