"""Pictures of generation: where the latency goes, several side by side, throughput against time per token."""

from collections.abc import Mapping, Sequence
from typing import Any

from sightline.profile import Profile
from sightline.report import generation_summary, look, panels, summary, units
from sightline.report.comparison_chart import comparison_title, memory_bars, time_bars
from sightline.report.generation_curve import curve_chart

_DEVICE_PHASES = ("prefill", "decode")
_MOST = 60
_TEXT_ROOM = 2.3


def generation_chart(profile: Profile, *, titled: bool = True) -> dict[str, Any]:
    """Return one prediction as three panels: latency by phase, device time by module, memory by part."""
    import altair as alt

    total_s = float(profile.latency_s)
    drawn = [
        panels.time_panel(generation_summary.phases(profile), total_s, "Where the latency goes", "latency"),
        panels.module_panel(summary.modules(profile), _DEVICE_PHASES, total_s, legend=True),
        panels.memory_panel(profile),
    ]
    chart = alt.vconcat(*(panel for panel in drawn if panel is not None)).resolve_scale(color="independent")
    if not titled:
        return look.configure(chart)
    lines = [*generation_summary.subtitle(profile.scenario), _headline(profile)]
    return look.configure(chart, summary.title(profile.scenario), lines)


def generations_chart(profiles: Sequence[Profile]) -> dict[str, Any]:
    """Return several predictions: a curve over the batch where that is what varies, else bars side by side."""
    return curve_chart(profiles) or _bars(profiles)


def _bars(profiles: Sequence[Profile]) -> dict[str, Any]:
    import altair as alt

    labels = summary.variant_labels([p.scenario for p in profiles])
    chosen = list(zip(labels, profiles, strict=True))
    lines = ["Latency by phase and memory of the fullest device by part; the tick is what the engine may fill."]
    if len(chosen) > _MOST:
        chosen.sort(key=lambda pair: -float(pair[1].output_tokens_per_s_per_device))
        chosen = chosen[:_MOST]
        lines.append(f"The {_MOST} with most tokens per second and device of {len(profiles):,}.")
    rows = [label for label, _ in chosen]
    stacks = [(label, generation_summary.phases(p), float(p.latency_s), _figures(p)) for label, p in chosen]
    times = time_bars(stacks, rows, "Latency", room=_TEXT_ROOM)
    chart = alt.hconcat(times, memory_bars(chosen, rows), spacing=36).resolve_scale(color="independent")
    return look.configure(chart, comparison_title(profiles), lines)


def _figures(profile: Profile) -> str:
    """What stands behind a bar: both latencies and the throughput."""
    first, step = units.seconds(float(profile.ttft_s)), units.seconds(float(profile.tpot_s))
    return f"TTFT {first} · TPOT {step} · {units.digits(float(profile.output_tokens_per_s))} tokens/s"


def _headline(profile: Profile) -> str:
    figures: Mapping[str, str] = dict(generation_summary.cards(profile))
    shown = [f"{name} {figures[name]}" for name in ("TTFT", "TPOT", "latency")]
    rate = f"{figures['tokens/s']} tokens/s"
    return " · ".join([*shown, rate, f"bound by {profile.bottleneck}", summary.fit_sentence(profile)])
