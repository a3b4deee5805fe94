"""Profiles of any task as compact text: one scenario in full, several as a table."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.profile import TASKS, Profile
from sightline.report import labels, summary, units
from sightline.report.measured import measured_sentences
from sightline.report.terminal import parts

_COLORS = {
    "forward": "blue",
    "prefill": "blue",
    "backward": "cyan",
    "decode": "cyan",
    "recompute": "magenta",
    "transfer": "magenta",
    "optimizer": "green",
    "communication_exposed": "red",
    "communication": "red",
    "pipeline_bubble": "yellow",
    "host": "bright_black",
    "": "white",
}


def tables(profiles: Sequence[Profile]) -> list[RenderableType]:
    """Return, for each task, a block for one profile and a table for several."""
    by_task = [[p for p in profiles if p.task is task] for task in TASKS]
    shown = [one(found[0]) if len(found) == 1 else many(found) for found in by_task if found]
    return [*shown, *(Text(line) for line in summary.anchor_sentences(profiles))]


def one(profile: Profile) -> RenderableType:
    """Return a single profile: headline figures, phases, modules, memory, measurements, what would fit."""
    blocks: list[RenderableType] = [
        Text(labels.title(profile.scenario), style="bold"),
        *(Text(line, style="dim") for line in labels.subtitle(profile.scenario)),
        Text(),
        _headline(profile),
        *(Text(line, style="dim") for line in summary.interval_sentences(profile)),
    ]
    if profile.phases or profile.memory_bytes:
        blocks += [Text(), _breakdown(profile)]
    for sentences, style in ((measured_sentences(profile), ""), (profile.advice, "red")):
        if sentences:
            blocks += [Text(), *(Text(sentence, style=style) for sentence in sentences)]
    return Group(*blocks)


def many(profiles: Sequence[Profile]) -> Table:
    """Return several profiles of one task as a table, a line each; the best in bold."""
    headings = summary.columns(profiles)
    words = ("fits", "bound by", "made by", "evidence")
    table = parts.plain_table(("operator" if not profiles[0].phases else "scenario",))
    table.columns[0].ratio = 1
    for heading in headings:
        table.add_column(heading, justify="left" if heading in words else "right", no_wrap=True)
    named = zip(labels.variant_labels([p.scenario for p in profiles]), profiles, summary.best(profiles), strict=True)
    for label, profile, is_best in named:
        cells = [
            Text(cell, style={"yes": "green", "no": "red"}.get(cell.partition(",")[0], ""))
            for cell in summary.cells(profile)
        ]
        table.add_row(Text(label), *cells, style="bold" if is_best else "")
    return table


def _headline(profile: Profile) -> parts.FirstThatFits:
    """Labelled figures, two to a line where they fit; a rate has its share per device behind it."""
    per_device = dict(summary.figures(profile, [k for k in profile.task.details if k.endswith("_s_per_device")]))
    cells = []
    for label, value in summary.headline(profile):
        each = per_device.get(f"{label} per device")
        style = "bold red" if label == "memory" and not profile.fits else "bold"
        cells += [Text(label, style="dim"), Text(f"{value} ({each} per device)" if each else value, style)]
    return parts.FirstThatFits([_in_columns(cells, 4), _in_columns(cells, 2)])


def _in_columns(cells: Sequence[Text], columns: int) -> Table:
    table = parts.grid(columns)
    for start in range(0, len(cells), columns):
        table.add_row(*cells[start : start + columns])
    return table


def _breakdown(profile: Profile) -> Table:
    """Parts of the time and of the fullest device's memory in one grid, so that columns line up."""
    table = parts.grid(4)
    whole = profile.task.metrics[profile.task.whole].label
    modules = summary.longest_modules(profile)
    for title, times in ((f"where the {whole} goes", summary.phases(profile)), ("device time by module", modules)):
        if times:
            table.add_row(Text(title, style="dim"))
            longest = max(part.share for part in times)
            for part in times:
                color = _COLORS.get(part.key, "blue")
                parts.add_part(table, part, units.seconds(part.value), part.share / longest, color)
            table.add_row()
    held = summary.memory(profile)
    largest = max((part.share for part in held), default=1.0)
    table.add_row(Text("memory of the fullest device", style="dim"))
    for part in held:
        color = "blue" if profile.fits else "red"
        parts.add_part(table, part, units.gib(part.value), part.share / largest, color)
    return table
