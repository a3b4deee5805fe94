"""Predictions of generation as compact text: one scenario in full, several side by side."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sightline.profile import Profile
from sightline.report import generation_summary, summary, terminal_parts

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLOURS = {
    "prefill": "blue",
    "decode": "cyan",
    "communication": "red",
    "transfer": "magenta",
    "host": "bright_black",
    "": "white",
}


def one(profile: Profile) -> "RenderableType":
    """Return a single prediction: headline figures, phases, memory, modules, measurements."""
    from rich.console import Group
    from rich.text import Text

    fits = bool(profile.fits)
    phases, held = generation_summary.phases(profile), summary.memory(profile)
    title = "where the latency goes"
    blocks: list[RenderableType] = [
        Text(summary.title(profile.scenario), style="bold"),
        *(Text(line, style="dim") for line in generation_summary.subtitle(profile.scenario)),
        Text(),
        terminal_parts.headline(generation_summary.headline(profile), fits=fits),
        *(Text(line, style="dim") for line in generation_summary.interval_sentences(profile)),
        Text(),
        terminal_parts.breakdown(title, phases, _COLOURS, held, fits=fits, detail=_modules(profile)),
    ]
    sentences = summary.measured_sentences(profile)
    if sentences:
        blocks += [Text(), *(Text(sentence) for sentence in sentences)]
    if profile.advice:
        blocks += [Text(), *(Text(sentence, style="red") for sentence in profile.advice)]
    return Group(*blocks)


def many(profiles: Sequence[Profile]) -> "RenderableType":
    """Return several predictions as one table, a line each; the one with most tokens per device in bold."""
    labels = summary.variant_labels([p.scenario for p in profiles])
    rates = [float(p.output_tokens_per_s_per_device) if p.fits else -1.0 for p in profiles]
    best = [rate == max(rates) and rate > 0 for rate in rates]
    rows = [generation_summary.compared(p) for p in profiles]
    return terminal_parts.comparison(labels, generation_summary.COMPARED, rows, best)


def _modules(profile: Profile) -> tuple[str, Sequence[summary.Part]]:
    return "device time by phase and module", generation_summary.modules(profile)
