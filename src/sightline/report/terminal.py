"""Predictions of training as compact text: one scenario in full, several side by side."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sightline.profile import Profile
from sightline.report import summary, terminal_parts, units

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLOURS = {
    "forward": "blue",
    "backward": "cyan",
    "recompute": "magenta",
    "optimizer": "green",
    "communication_exposed": "red",
    "pipeline_bubble": "yellow",
    "host": "bright_black",
}


def one(profile: Profile) -> "RenderableType":
    """Return a single prediction: headline figures, phases, memory, the whole run, measurements, what would fit."""
    from rich.console import Group
    from rich.text import Text

    parts, held = summary.phases(profile), summary.memory(profile)
    blocks: list[RenderableType] = [
        Text(summary.title(profile.scenario), style="bold"),
        *(Text(line, style="dim") for line in summary.subtitle(profile.scenario)),
        Text(),
        terminal_parts.headline(_headline(profile), fits=bool(profile.fits)),
        *(Text(line, style="dim") for line in summary.interval_sentences(profile)),
        Text(),
        terminal_parts.breakdown("where the step goes", parts, _COLOURS, held, fits=bool(profile.fits)),
    ]
    run = summary.run_figures(profile)
    if run:
        tokens = units.count(float(profile.scenario.workload.total_tokens or 0))
        blocks += [Text(), Text(f"{tokens} tokens: " + ", ".join(f"{name} {value}" for name, value in run))]
    sentences = summary.measured_sentences(profile)
    if sentences:
        blocks += [Text(), *(Text(sentence) for sentence in sentences)]
    if profile.advice:
        blocks += [Text(), *(Text(sentence, style="red") for sentence in profile.advice)]
    return Group(*blocks)


def many(profiles: Sequence[Profile]) -> "RenderableType":
    """Return several predictions as one table, a line each; the fastest per device in bold."""
    labels = summary.variant_labels([p.scenario for p in profiles])
    rates = [float(p.tokens_per_s_per_device) if p.fits else -1.0 for p in profiles]
    best = [rate == max(rates) and rate > 0 for rate in rates]
    return terminal_parts.comparison(labels, summary.COMPARED, [summary.compared(p) for p in profiles], best)


def _headline(profile: Profile) -> list[tuple[str, str, str, str]]:
    total, each = float(profile.tokens_per_s), float(profile.tokens_per_s_per_device)
    return [
        (
            "step time",
            units.seconds(float(profile.step_time_s)),
            "tokens/s",
            f"{units.digits(total)} ({units.digits(each)} per device)",
        ),
        ("MFU", units.percent(float(profile.mfu)), "HFU", units.percent(float(profile.hfu))),
        ("bottleneck", str(profile.bottleneck), "memory", summary.fit_sentence(profile)),
    ]
