"""What every face of a generation's profile shows: headline figures, where the latency goes, intervals."""

from sightline.profile import GENERATION, Profile
from sightline.report import summary, units
from sightline.scenario import GenerationPlan, GenerationScenario

COMPARED = ("TTFT", "TPOT", "latency", "tokens/s", "memory", "fits", "bound by")
"""Headings of a table with a line per scenario."""

_INTERVALS = (("ttft_s", "TTFT"), ("tpot_s", "TPOT"), ("latency_s", "latency"))
_MOST_MODULES = 8
_PLAIN = ("bf16", "fp16", "fp32")


def subtitle(scenario: GenerationScenario) -> tuple[str, str]:
    """Return two lines: what runs on what, and how."""
    plan, cluster, work = scenario.plan, scenario.cluster, scenario.workload
    reused = work.prefix_tokens and plan.prefix_cache
    cached = f" ({work.prefix_tokens:,} of them cached)" if reused else ""
    loop = "steady loop of " if work.continuous else "batch "
    what = (
        f"{scenario.model.name} ({units.count(scenario.model.parameters)})",
        f"{cluster.devices:,} x {cluster.device.name}",
        f"{loop}{work.batch:,}, {work.prompt_tokens:,} tokens in{cached}, {work.output_tokens:,} out",
    )
    split = plan.disaggregate
    layout = _layout(plan) if split is None else f"prefill: {_layout(split.prefill)}; decode: {_layout(plan)}"
    how = [f"{plan.engine.name} {plan.engine.version}".strip(), layout, _formats(scenario)]
    if plan.speculative is not None:
        drafted = f"{plan.speculative.tokens} drafted token{'s' if plan.speculative.tokens != 1 else ''}"
        how.append(f"{drafted}, {units.percent(float(plan.speculative.acceptance))} kept")
    return " · ".join(what), " · ".join(how)


def _layout(plan: GenerationPlan) -> str:
    degrees = (
        ("tp", plan.tensor_parallel),
        ("pp", plan.pipeline_parallel),
        ("dp", plan.data_parallel),
        ("ep", plan.expert_parallel),
    )
    named = [f"{name} {degree}" for name, degree in degrees if degree != 1] or ["one device"]
    return ", ".join([*named, *([f"{plan.replicas} replicas"] if plan.replicas != 1 else [])])


def _formats(scenario: GenerationScenario) -> str:
    """The type of the arithmetic, and in what format weights and cache are where that is another."""
    stated, published = scenario.plan.quantization, scenario.model.weights
    if stated is None:
        return scenario.plan.dtype if published in _PLAIN else f"{scenario.plan.dtype}, weights in {published}"
    return ", ".join((scenario.plan.dtype, *(stated or ("not quantized",))))


def headline(profile: Profile) -> list[tuple[str, str, str, str]]:
    """Return the figures that a reader asks for first, two to a line."""
    return [
        ("TTFT", units.seconds(float(profile.ttft_s)), "TPOT", units.seconds(float(profile.tpot_s))),
        ("latency", units.seconds(float(profile.latency_s)), "tokens/s", _rate(profile)),
        ("bottleneck", str(profile.bottleneck), "memory", summary.fit_sentence(profile)),
        ("energy", units.energy(float(profile.energy_j)), *_rent(profile)),
    ]


def _rate(profile: Profile) -> str:
    total, each = float(profile.output_tokens_per_s), float(profile.output_tokens_per_s_per_device)
    return f"{units.digits(total)} ({units.digits(each)} per device)"


def _rent(profile: Profile) -> tuple[str, str]:
    if profile.cost_usd_per_million_tokens is None:
        return "", ""
    return "rent", f"{units.money(float(profile.cost_usd_per_million_tokens))} per million tokens"


def cards(profile: Profile) -> list[tuple[str, str]]:
    """Return the headline figures one by one."""
    figures = [
        ("TTFT", units.seconds(float(profile.ttft_s))),
        ("TPOT", units.seconds(float(profile.tpot_s))),
        ("latency", units.seconds(float(profile.latency_s))),
        ("tokens/s", units.digits(float(profile.output_tokens_per_s))),
        ("tokens/s per device", units.digits(float(profile.output_tokens_per_s_per_device))),
        ("bottleneck", str(profile.bottleneck)),
        ("energy", units.energy(float(profile.energy_j))),
    ]
    if profile.cost_usd_per_million_tokens is not None:
        figures.append(("rent per million tokens", units.money(float(profile.cost_usd_per_million_tokens))))
    return figures


def compared(profile: Profile) -> tuple[str, ...]:
    """Return a scenario's cells under ``COMPARED``."""
    return (
        units.seconds(float(profile.ttft_s)),
        units.seconds(float(profile.tpot_s)),
        units.seconds(float(profile.latency_s)),
        units.digits(float(profile.output_tokens_per_s)),
        units.gib(float(profile.memory_bytes["total"])),
        "yes" if profile.fits else "no",
        str(profile.bottleneck),
    )


def phases(profile: Profile) -> list[summary.Part]:
    """Return the phases of the latency that take any time, in the order they are documented."""
    return summary.parts(GENERATION.phases, profile.phases, float(profile.latency_s))


def modules(profile: Profile) -> list[summary.Part]:
    """Return device time by phase and module, longest first; of very many the rest is added up."""
    sums = [(phase, module, s) for module, times in summary.modules(profile) for phase, s in times.items() if s > 0]
    sums.sort(key=lambda item: -item[2])
    shown, rest = sums[:_MOST_MODULES], sums[_MOST_MODULES:]
    whole = float(profile.latency_s)
    found = [summary.Part(key=p, label=f"{p}: {module}", value=s, share=s / whole) for p, module, s in shown]
    if rest:
        other = sum(s for _, _, s in rest)
        found.append(summary.Part(key="", label="everything else", value=other, share=other / whole))
    return found


def interval_sentences(profile: Profile) -> list[str]:
    """Say where four in five measurements lie and what that rests on; nothing where nobody knows."""
    ranges = [
        f"{name} {units.seconds(float(low))} to {units.seconds(float(high))}"
        for key, name in _INTERVALS
        for low, high in (profile.interval.get(key, (0.0, 0.0)),)
        if high
    ]
    if not ranges:
        return []
    evidence = f"this engine: {profile.evidence.get('framework', 'estimated')}"
    return [f"80 % intervals: {', '.join(ranges[:2])}", "; ".join([*ranges[2:], evidence])]
