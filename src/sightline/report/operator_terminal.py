"""Single operators as compact text: one as a block, several side by side."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sightline.profile import Profile
from sightline.report import summary, units

if TYPE_CHECKING:
    from rich.console import RenderableType


def one(profile: Profile) -> "RenderableType":
    """Return a single operator: its time, what it does in it, what bounds it, what that rests on."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    scenario = profile.scenario
    grid = Table.grid(padding=(0, 3, 0, 0))
    interval = [("80 % interval", " to ".join(units.seconds(float(t)) for t in profile.interval["time_s"]))]
    for label, value in (
        ("time", units.seconds(float(profile.time_s))),
        *(interval if profile.interval else []),
        ("reaches", ", ".join(rate for rate in rates(profile) if rate != "-") or "-"),
        *basis(profile),
    ):
        grid.add_row(Text(label, style="dim"), Text(value, style="bold"))
    where = f"{scenario.cluster.devices:,} x {scenario.cluster.device.name}"
    head = [Text(summary.title(scenario), style="bold")]
    head += [Text(f"{summary.operation(scenario)} · {where}", style="dim")] if scenario.name else []
    sentences = [Text(sentence) for sentence in summary.measured_sentences(profile)]
    return Group(*head, Text(), grid, *([Text()] if sentences else []), *sentences)


def many(profiles: Sequence[Profile]) -> "RenderableType":
    """Return several operators as one table, a line each."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("operator", overflow="fold", ratio=1)
    for heading in ("time", "80 %", "FLOP/s", "bytes/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("made by", "evidence") if all(p.measurement for p in profiles) else ("bound by", "evidence"):
        table.add_column(heading, no_wrap=True)
    for label, p in zip(summary.variant_labels([p.scenario for p in profiles]), profiles, strict=True):
        table.add_row(Text(label), units.seconds(float(p.time_s)), spread(p), *rates(p), *(v for _, v in basis(p)))
    return table


def basis(profile: Profile) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return what bounds a predicted operator and what that rests on; of a measured one, what ran and how often."""
    how = profile.measurement
    if how:
        return ("made by", str(how["implementation"])), ("evidence", f"{how['repeats']} repeats")
    return ("bound by", str(profile.bound)), ("evidence", str(profile.evidence))


def spread(profile: Profile) -> str:
    """Return how far the interval reaches above the time; a dash where there is none."""
    if not profile.interval or not profile.time_s:
        return "-"
    return f"± {100 * (float(profile.interval['time_s'][1]) / float(profile.time_s) - 1):.0f} %"


def rates(profile: Profile) -> tuple[str, str]:
    """Return the FLOP/s and the bytes per second an operator reaches; a dash for what it has none of."""
    flops, bytes_per_s = float(profile.flops_per_s or 0.0), float(profile.bytes_per_s or 0.0)
    return units.rate(flops, "FLOP/s") if flops else "-", units.rate(bytes_per_s, "B/s") if bytes_per_s else "-"
