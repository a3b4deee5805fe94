"""Profiles of any task as compact text: one scenario in full, several as a table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.profile import COMMUNICATION, SERVING, TASKS, Profile, overlapped_s
from sightline.report import labels, summary, units
from sightline.report.measured import measured_sentences
from sightline.report.terminal import parts

if TYPE_CHECKING:
    from sightline.planning.answer import NearestPlan

COLORS = {
    "forward": "blue",
    "queue": "yellow",
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


def tables(
    profiles: Sequence[Profile],
    cells: Sequence[Mapping[str, Any]] = (),
    order: Sequence[int] | None = None,
    nearest: "Sequence[NearestPlan]" = (),
) -> list[RenderableType]:
    """Return, for each task, a block for one profile and a table for several.

    ``cells`` holds each profile's values of swept keys, ``order`` the positions of those that are shown, ``nearest``
    plans that fit in place of a single one that does not.
    """
    shown = range(len(profiles)) if order is None else order
    found: list[RenderableType] = []
    for task in TASKS:
        asked = [p for p in profiles if p.task is task]
        chosen = [i for i in shown if profiles[i].task is task]
        if len(asked) == 1 and chosen:
            found.append(_served(asked[0]) if task is SERVING else one(asked[0], nearest))
        elif chosen:
            # Most commands show one profile, and start faster without this.
            from sightline.report.terminal.several import several

            found.append(several([profiles[i] for i in chosen], [cells[i] for i in chosen if cells], len(asked)))
    return [*found, *(Text(line) for line in summary.anchor_sentences(profiles))]


def one(profile: Profile, nearest: "Sequence[NearestPlan]" = ()) -> RenderableType:
    """Return a single profile: headline figures, phases, modules, memory, measurements, what would fit."""
    blocks: list[RenderableType] = [
        Text(labels.title(profile.scenario), style="bold"),
        *(Text(line, style="dim") for line in labels.subtitle(profile.scenario)),
        Text(),
        _headline(profile),
        *(parts.Sentence(line, style="dim") for line in summary.interval_sentences(profile)),
    ]
    if profile.phases or profile.memory_bytes:
        blocks += [Text(), _breakdown(profile)]
    for sentences, style in ((measured_sentences(profile), ""), (profile.advice, "red")):
        if sentences:
            blocks += [Text(), *(parts.Sentence(sentence, style=style) for sentence in sentences)]
    return Group(*blocks, *_nearest(nearest))


def _served(profile: Profile) -> RenderableType:
    """A single served load."""
    from sightline.report.terminal.serving import one as served

    return served(profile, _breakdown(profile) if profile.phases else None)


def _nearest(nearest: "Sequence[NearestPlan]") -> Iterator[RenderableType]:
    """Yield what would fit in place of a plan that does not, with the command that tries it."""
    for near in nearest:
        from sightline.report.plans.sentences import setting

        yield Text()
        yield parts.Sentence(f"{setting(near.set)}: {near.sentence}")
        yield parts.Command(near.command)


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


def _add_overlapped(table: Table, profile: Profile) -> None:
    """Add the communication that compute hides, which is no part of the time."""
    if (seconds := overlapped_s(profile.rows)) > 0:
        share = units.percent(seconds / float(profile.whole_s))
        value = Text(units.seconds(seconds), style="dim", justify="right")
        table.add_row(Text("overlapped communication", style="dim"), value, Text(share, "dim", justify="right"))


def _breakdown(profile: Profile) -> Table:
    """Parts of the time and of the fullest device's memory in one grid, so that columns line up."""
    table = parts.grid(4)
    whole = profile.task.figures[profile.task.whole].label
    modules = summary.longest_modules(profile)
    for title, times in ((f"{whole} by phase", summary.phases(profile)), ("device time by module", modules)):
        if times:
            table.add_row(Text(title, style="dim"))
            longest = max(part.share for part in times)
            for part in times:
                color = COLORS.get(part.key, "blue")
                parts.add_part(table, part, units.seconds(part.value), part.share / longest, color)
                if part.key in COMMUNICATION and title == f"{whole} by phase":
                    _add_overlapped(table, profile)
            table.add_row()
    held = summary.memory(profile)
    largest = max((part.share for part in held), default=1.0)
    if held:
        table.add_row(Text("memory of the fullest device", style="dim"))
    for part in held:
        color = "blue" if profile.fits else "red"
        parts.add_part(table, part, units.gib(part.value), part.share / largest, color)
    return table
