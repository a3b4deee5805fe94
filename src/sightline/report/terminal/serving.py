"""One served load as compact text: its times, its rates, what limits it, where the time goes."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sightline.profile import Profile
from sightline.quantities import Number
from sightline.report import labels, summary, units
from sightline.report.measured import measured_sentences
from sightline.report.terminal import parts

_TIMES = {
    "ttft_s": "time to first token",
    "tpot_s": "time per token",
    "itl_s": "between tokens",
    "latency_s": "latency",
}


def one(profile: Profile, breakdown: RenderableType | None) -> RenderableType:
    """Return a served load in full; ``breakdown`` is where its time and memory go."""
    blocks: list[RenderableType] = [
        Text(labels.title(profile.scenario), style="bold"),
        *(Text(line, style="dim") for line in labels.subtitle(profile.scenario)),
    ]
    if profile.completed:
        blocks += [Text(), _times(profile)]
    blocks += [Text(), _figures(profile)]
    blocks += [parts.Sentence(line) for line in _sentences(profile)]
    blocks += [parts.Sentence(line, style="dim") for line in interval_sentences(profile)]
    return Group(*blocks, *([] if breakdown is None else [Text(), breakdown]))


def _times(profile: Profile) -> Table:
    """Mean and percentiles, a line for each time."""
    rows: list[list[RenderableType]] = [
        [Text(label, style="dim"), *(_seconds(profile, f"{key}.{name}") for name in profile.latency_s)]
        for key, label in _TIMES.items()
        if profile.figure(f"{key}.mean") is not None
    ]
    return parts.plain_table(("",), tuple(profile.latency_s), rows)


def _seconds(profile: Profile, key: str) -> str:
    found = profile.figure(key)
    return summary.NOTHING if found is None else units.seconds(float(found))


def _figures(profile: Profile) -> parts.FirstThatFits:
    """Labelled figures, two to a line where they fit."""
    cells = [
        Text(text, style=style)
        for label, value in _labelled(profile)
        for text, style in ((label, "dim"), (value, "bold red" if label == "memory" and not profile.fits else "bold"))
    ]
    return parts.FirstThatFits([_in_columns(cells, 4), _in_columns(cells, 2)])


def _in_columns(cells: list[Text], columns: int) -> Table:
    table = parts.grid(columns)
    for start in range(0, len(cells), columns):
        table.add_row(*cells[start : start + columns])
    return table


def _labelled(profile: Profile) -> Iterator[tuple[str, str]]:
    """The figures that are known."""
    if profile.completed:
        yield from summary.figures(profile, ("output_tokens_per_s", "requests_per_s"))
    yield "requests", _ended(profile)
    for key in ("goodput_requests_per_s", "capacity_requests_per_s"):
        yield from summary.figures(profile, (key,))
    if profile.completed:
        yield from summary.figures(profile, ("queue_s",))
    if profile.transfer_s is not None:
        yield from summary.figures(profile, ("transfer_s",))
    for name, pool in (profile.pools or {}).items():
        yield name, f"{pool['replicas']} x {units.percent(pool['busy'])} busy"
    yield from _prefix_hits(profile)
    if profile.kv_use is not None:
        mean, most = (units.percent(float(profile.kv_use[key])) for key in ("mean", "max"))
        yield "KV cache", f"{mean} used on average, {most} peak"
    if profile.preemptions:
        yield "preemptions", f"{profile.preemptions:,}"
    yield from _verdicts(profile)
    yield from summary.figures(profile, profile.task.totals[1:])


def _prefix_hits(profile: Profile) -> Iterator[tuple[str, str]]:
    """What the prefix cache held of the prompts, in all memories and in each behind the device's."""
    if profile.prefix_hit_rate:
        yield from summary.figures(profile, ("prefix_hit_rate",))
    for name, tier in (profile.kv_tiers or {}).items():
        yield f"hits in {name}", f"{units.percent(tier['hit_rate'])}, loaded in {units.seconds(tier['load_s'])}"


def _verdicts(profile: Profile) -> Iterator[tuple[str, str]]:
    """What bounds the iterations, and whether memory is enough, where that was predicted."""
    if profile.memory_bytes:
        if profile.bottleneck is not None:
            yield "bottleneck", summary.bound_by(profile)
        yield summary.verdicts(profile)[1]


def _ended(profile: Profile) -> str:
    """How many requests ended how."""
    others = {"failed": profile.failed, **profile.refused}
    asked = profile.completed + sum(others.values())
    if profile.completed == asked:
        return f"{asked:,} completed"
    why = ", ".join(f"{count:,} {reason}" for reason, count in others.items() if count)
    return f"{profile.completed:,} of {asked:,} completed; {why}"


def _sentences(profile: Profile) -> Iterator[str]:
    """Whether the objective is kept, what limits, what was measured of the same load, and why nothing was served."""
    yield from summary.serving_sentences(profile)
    yield from measured_sentences(profile)
    yield from profile.advice


def interval_sentences(profile: Profile) -> Iterator[str]:
    """Yield the 80 % intervals of the capacity and of a percentile, that of the objective if it is among them."""
    low, high = profile.interval.get("capacity_requests_per_s", (None, None))
    if low and high:
        yield f"80 % interval of the capacity: {units.digits(float(low))}/s to {units.digits(float(high))}/s"
    slo = profile.scenario.workload.slo
    name = "p90" if slo is None else f"p{float(slo.percentile):g}"
    ends = {label: profile.interval.get(f"{key}.{name}") for key, label in _TIMES.items()}
    said = [f"{label} {_ends(*found)}" for label, found in ends.items() if found is not None]
    if said:
        yield f"80 % intervals of {name}: {', '.join(said)}"


def _ends(low: Number, high: Number | None) -> str:
    least = units.seconds(float(low))
    return f"{least} or more" if high is None else f"{least} to {units.seconds(float(high))}"
