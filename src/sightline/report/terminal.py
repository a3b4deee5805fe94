"""Predictions as compact text: one scenario in full, several side by side."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sightline.profile import Profile
from sightline.report import summary, units

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_BAR_WIDTH = 24
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

    blocks: list[RenderableType] = [
        Text(summary.title(profile.scenario), style="bold"),
        *(Text(line, style="dim") for line in summary.subtitle(profile.scenario)),
        Text(),
        _headline(profile),
        *(Text(line, style="dim") for line in summary.interval_sentences(profile)),
        Text(),
        _breakdown(profile),
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
    """Return several predictions as one table, a line each."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("scenario", overflow="fold", ratio=1)
    for heading in ("step", "tokens/s", "MFU", "memory"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("fits", no_wrap=True)
    table.add_column("bound by", no_wrap=True)
    fastest = max(float(p.tokens_per_s_per_device) for p in profiles if p.fits) if any(p.fits for p in profiles) else -1
    for label, p in zip(summary.variant_labels([p.scenario for p in profiles]), profiles, strict=True):
        best = bool(p.fits) and float(p.tokens_per_s_per_device) == fastest
        table.add_row(
            Text(label),
            units.seconds(float(p.step_time_s)),
            units.digits(float(p.tokens_per_s)),
            units.percent(float(p.mfu)),
            units.gib(float(p.memory_bytes["total"])),
            Text("yes", style="green") if p.fits else Text("no", style="red"),
            str(p.bottleneck),
            style="bold" if best else "",
        )
    return table


def _headline(profile: Profile) -> "Table":
    from rich.text import Text

    rows = (
        ("step time", units.seconds(float(profile.step_time_s)), "tokens/s", _tokens(profile)),
        ("MFU", units.percent(float(profile.mfu)), "HFU", units.percent(float(profile.hfu))),
        ("bottleneck", str(profile.bottleneck), "memory", summary.fit_sentence(profile)),
    )
    table = _grid(4)
    for left, left_value, right, right_value in rows:
        style = "bold" if profile.fits or right != "memory" else "bold red"
        table.add_row(
            Text(left, style="dim"), Text(left_value, style="bold"), Text(right, style="dim"), Text(right_value, style)
        )
    return table


def _tokens(profile: Profile) -> str:
    total, each = float(profile.tokens_per_s), float(profile.tokens_per_s_per_device)
    return f"{units.digits(total)} ({units.digits(each)} per device)"


def _breakdown(profile: Profile) -> "Table":
    """Return the phases of the step and the memory of the fullest device in one grid, so that columns line up."""
    from rich.text import Text

    table = _grid(4)
    steps = summary.phases(profile)
    longest = max((part.share for part in steps), default=1.0)
    table.add_row(Text("where the step goes", style="dim"))
    for part in steps:
        _add_part(table, part, units.seconds(part.value), part.share / longest, _COLOURS[part.key])
    table.add_row()
    held = summary.memory(profile)
    largest = max((part.share for part in held), default=1.0)
    table.add_row(Text("memory of the fullest device", style="dim"))
    for part in held:
        _add_part(table, part, units.gib(part.value), part.share / largest, "blue" if profile.fits else "red")
    return table


def _add_part(table: "Table", part: summary.Part, value: str, length: float, colour: str) -> None:
    from rich.text import Text

    share = Text(units.percent(part.share), justify="right")
    table.add_row(part.label, Text(value, justify="right"), share, _bar(length, colour))


def _grid(columns: int) -> "Table":
    from rich.table import Table

    table = Table.grid(padding=(0, 3, 0, 0))
    for _ in range(columns):
        table.add_column(no_wrap=True)
    return table


def _bar(share: float, colour: str) -> "RenderableType":
    """Return a bar of eighth blocks, so that one per cent can still be told from two."""
    from rich.text import Text

    eighths = max(round(max(share, 0.0) * _BAR_WIDTH * 8), 1)
    full, rest = divmod(eighths, 8)
    return Text("█" * full + ("" if rest == 0 else "▏▎▍▌▋▊▉"[rest - 1]), style=colour)
