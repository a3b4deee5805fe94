"""Curves over a number that is varied: devices, the batch, or the load of a server."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sightline.answers import labels, summary, units
from sightline.charts import figure
from sightline.charts.drawing import FAINT, GOOD, INK, LINES, SCREEN, WARNING, Room, basis
from sightline.charts.stacks import ends_of
from sightline.profile import GENERATION, Profile

if TYPE_CHECKING:
    from sightline.scenario import ServingScenario

LEAST_POINTS = 3
"""Different values from which there is a curve."""
_MOST_LINES = 10
_RATE_HEIGHT = 260
_FROM_DEVICES = ("plan.data_parallel", "plan.replicas", "workload.global_batch", "plan.zero_stage_groups")
"""What follows from the number of devices."""
_CIRCLES = {"symbolType": "circle", "symbolOpacity": 1}
STROKES = {"symbolType": "stroke"}
TIMES = {"ttft_s": "Time to first token", "tpot_s": "Time per output token", "latency_s": "Latency"}
_SHOWN = {"p50": "50 % of requests", "p90": "90 %", "p99": "99 %"}


def _ends(profile: Profile, key: str) -> dict[str, float]:
    """Return the ends of the 80 % interval of a figure; that figure where they are not known."""
    low, high = ends_of(profile, key, float(profile.figure(key)))
    return {f"{key}.low": low, f"{key}.high": high}


def _powers_of_two(title: str, counts: Sequence[int], padding: int) -> figure.Axis:
    """An axis of counts, of which at most eight are marked."""
    ticks = {"values": counts[:: -(-len(counts) // 8)], "grid": False, "format": ",d", "labelOverlap": True}
    return figure.Axis(title=title, scale={"type": "log", "base": 2, "nice": False, "padding": padding}, ticks=ticks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What some number of devices reaches."""

    line: str
    """What the curve is of, such as a device."""
    devices: int
    tokens_per_s: float
    interval: tuple[float, float] | None = None
    label: str = ""
    fits: bool = True


def scaling_chart(profiles: Sequence[Profile], room: Room = SCREEN) -> dict[str, Any] | None:
    """Return throughput and its efficiency of predictions over numbers of devices; None if these do not make curves."""
    points = list(_scales(profiles))
    counts = [len({point.devices for point in points if point.line == line}) for line in {p.line for p in points}]
    if not points or min(counts) < LEAST_POINTS or sum(counts) != len(points):
        return None
    lines = [
        "Dashed: linear scaling from the smallest device count.",
        "" if all(point.fits for point in points) else "Hollow points do not fit in memory.",
        basis([profile.evidence for profile in profiles], "thin line" if any(p.interval for p in points) else ""),
    ]
    title = labels.title_of_sweep([profile.scenario for profile in profiles], ["number of devices"])
    return figure.specification(scaling_panels(points, room), title, lines, room)


def _scales(profiles: Sequence[Profile]) -> Iterator[Scale]:
    """A point per profile; its line is named by what else than the number of devices differs."""
    if len({profile.task.name for profile in profiles}) != 1 or not profiles[0].task.rates:
        return
    varied = labels.differing([profile.scenario for profile in profiles])
    for profile, keys in zip(profiles, varied, strict=True):
        rate = profile.task.rates[0]
        telling = [k for k in keys if k.startswith(("plan.", "workload.", "model.name")) and k not in _FROM_DEVICES]
        others = {k.rpartition(".")[2]: keys[k] for k in telling}
        cluster = profile.scenario.cluster
        named = [cluster.device.name, *(f"{name} {value}" for name, value in others.items() if value is not None)]
        if len({p.scenario.cluster.device.name for p in profiles}) == 1 and others:
            named = named[1:]
        low, high = profile.interval.get(rate) or (None, None)
        if value := profile.figure(rate):
            yield Scale(
                line=", ".join(named),
                devices=int(cluster.devices),
                tokens_per_s=float(value),
                interval=None if low is None or high is None else (float(low), float(high)),
                label=labels.title(profile.scenario),
                fits=bool(profile.fits),
            )


def rows_of(points: Sequence[Scale]) -> list[dict[str, Any]]:
    """Return each point with what linear scaling from its line's fewest devices gives, and its share of that."""
    rows = []
    for point in points:
        first = min((p for p in points if p.line == point.line), key=lambda p: p.devices)
        linear_rate = first.tokens_per_s * point.devices / first.devices
        low, high = point.interval or (point.tokens_per_s, point.tokens_per_s)
        own = {"line": point.line, "devices": point.devices, "tokens_per_s": point.tokens_per_s}
        ends = {"tokens_per_s.low": low, "tokens_per_s.high": high, "linear_tokens_per_s": linear_rate}
        share = {"share_of_linear": point.tokens_per_s / linear_rate, "plan": point.label, "fits": point.fits}
        rows.append(own | ends | share)
    return rows


def scaling_panels(points: Sequence[Scale], room: Room = SCREEN) -> figure.Group:
    """Return two panels: tokens per second with what linear scaling would give, and the share of it that is reached."""
    rows = rows_of(points)
    color = figure.colored("line", [point.line for point in points], _CIRCLES)
    x = _powers_of_two("devices", sorted({point.devices for point in points}), 14)
    tooltip = ["line", ("devices", ",d"), ("tokens_per_s", ",.3~s"), ("share_of_linear", ".1%"), "plan"]
    looks: dict[str, Any] = {"x": "devices", "filled": "datum.fits", "tooltip": tooltip}
    ends = [row[key] for row in rows for key in ("tokens_per_s.low", "tokens_per_s.high", "linear_tokens_per_s")]
    spans = {"y": "tokens_per_s.low", "y2": "tokens_per_s.high", "color": color, "strokeWidth": 1.2, "opacity": 0.6}
    dashed = {"strokeDash": [4, 4], "color": FAINT}
    throughput = [
        figure.mark("line", rows, x="devices", y="linear_tokens_per_s", detail="line", strokeWidth=1, **dashed),
        figure.interval(rows, x="devices", **spans),
        *figure.curve(rows, color, "devices", y="tokens_per_s", **looks),
    ]
    efficiency = [
        figure.mark("rule", [{"share_of_linear": 1}], y="share_of_linear", **dashed),
        *figure.curve(rows, color, "devices", y="share_of_linear", **looks),
    ]
    shares = [row["share_of_linear"] for row in rows]
    y = figure.logarithmic("tokens/s", min(ends) / 1.15, max(ends) * 1.15, format="~s")
    share = figure.linear(
        *("share of linear scaling (%)", min(0.8, 0.95 * min(shares)), max(1.0, *shares) * 1.02),
        format="~%",
        tickCount=room.ticks,
    )
    width = room.panel * 0.55 if room.side_by_side else room.plot(room.panel * 2)
    sized: dict[str, Any] = {"x": x, "width": width, "height": 240, "heading": {"frame": "bounds"}}
    return figure.beside(
        figure.Panel(title="Throughput", y=y, marks=throughput, **sized),
        figure.Panel(title="Efficiency", y=share, marks=efficiency, **sized),
        room=room,
    )


def batch_chart(profiles: Sequence[Profile], room: Room = SCREEN) -> dict[str, Any] | None:
    """Return two panels over the batch, a line per whatever else differs; None if the batch does not vary.

    Left: tokens per second against time per token, each point labelled with the batch. Right: time to first token.
    """
    # Of a single output token there is no time between tokens.
    if profiles[0].task is not GENERATION or not all(profile.tpot_s for profile in profiles):
        return None
    rows = _batches(profiles)
    lines = list(dict.fromkeys(row["line"] for row in rows))
    batches = [len({row["batch"] for row in rows if row["line"] == line}) for line in lines]
    if len(lines) > _MOST_LINES or min(batches) < LEAST_POINTS or len(rows) != sum(batches):
        return None
    has = "thin line" if any(profile.interval for profile in profiles) else ""
    notes = [
        "Labels are sequences in flight. Hollow points do not fit in memory.",
        "Up: more throughput. Left: lower latency.",
        basis([profile.evidence for profile in profiles], has),
        *summary.anchor_sentences(profiles),
    ]
    title = labels.common_title([profile.scenario for profile in profiles])
    return figure.specification(_batch_panels(rows, lines, room), title, notes, room)


def _batches(profiles: Sequence[Profile]) -> list[dict[str, Any]]:
    """A point per scenario; its line is named by what else differs."""
    return [
        {"line": label, "batch": int(p.scenario.workload.batch), "fits": bool(p.fits)}
        | {key: float(p.figure(key)) for key in _KEYS}
        | {"text": f"{int(p.scenario.workload.batch):,}"}
        | {end: value for key in _KEYS for end, value in _ends(p, key).items()}
        for label, p in zip(labels.line_labels([p.scenario for p in profiles], "workload.batch"), profiles, strict=True)
    ]


def _batch_panels(rows: Sequence[dict[str, Any]], lines: Sequence[str], room: Room) -> figure.Group:
    color = figure.colored("line", lines, {"columns": 1, "symbolType": "circle"})
    fastest = min(rows, key=lambda row: float(row["tpot_s"]))["line"]
    most = max(row["output_tokens_per_s.high"] for row in rows)
    tooltip = ["line", ("batch", ",d"), *((key, ".4~g") for key in _KEYS), "fits"]
    looks: dict[str, Any] = {"filled": "datum.fits", "tooltip": tooltip}
    rate, tpot, ttft = "output_tokens_per_s", "tpot_s", "ttft_s"
    labelled = figure.words(
        [row for row in rows if row["line"] == fastest], x=tpot, y=rate, align="right", dx=-7, dy=-6
    )
    trade = figure.Panel(
        title="Throughput against TPOT",
        x=_time("time per output token (TPOT) in milliseconds", [row[key] for row in rows for key in _all(tpot)], 1e-3),
        y=figure.linear("tokens/s, all sequences", 0, 1.06 * most, format="~s" if most >= 1e4 else ",~f", tickCount=6),
        marks=[
            *figure.curve(rows, color, "batch", x=tpot, y=rate, **looks),
            _span(rows, color, "x", tpot, y=rate),
            _span(rows, color, "y", rate, x=tpot),
            labelled,
        ],
        width=room.plot(330),
        height=300,
    )
    first = figure.Panel(
        title="Time to first token",
        x=_powers_of_two("sequences in flight", sorted({row["batch"] for row in rows}), 12),
        y=_time("time to first token (TTFT) in seconds", [row[key] for row in rows for key in _all(ttft)]),
        marks=[
            *figure.curve(rows, color, "batch", x="batch", y=ttft, **looks),
            _span(rows, color, "y", ttft, x="batch"),
        ],
        width=room.plot(330),
        height=300,
    )
    return figure.beside(trade, first, room=room, spacing=44)


_KEYS = ("tpot_s", "ttft_s", "output_tokens_per_s")


def _all(key: str) -> tuple[str, str, str]:
    return key, f"{key}.low", f"{key}.high"


def _time(title: str, values: Sequence[float], divisor: float = 1.0) -> figure.Axis:
    return figure.logarithmic(title, min(values) / 1.25, max(values) * 1.3, divisor)


def _span(rows: Sequence[dict[str, Any]], color: figure.Series, side: str, key: str, **other: str) -> figure.Mark:
    """Thin lines through the points: their intervals along an axis."""
    ends = {side: f"{key}.low", f"{side}2": f"{key}.high"}
    return figure.interval(rows, **ends, **other, color=color, strokeWidth=1, opacity=0.5, clip=True)


def is_curve(scenarios: "Sequence[ServingScenario]") -> bool:
    """Return whether loads differ in their rate or in the number of their clients alone, and are enough for a curve."""
    return any(_differ_in(name, scenarios) for name in ("rate", "concurrency"))


def _differ_in(name: str, scenarios: "Sequence[ServingScenario]") -> bool:
    loads = [getattr(one.workload.arrival, name) for one in scenarios]
    if None in loads or len({*loads}) < max(LEAST_POINTS, len(loads)):
        return False
    return len({*labels.line_labels(scenarios, f"workload.arrival.{name}")}) == 1


def rate_chart(profiles: Sequence[Profile], room: Room = SCREEN) -> dict[str, Any]:
    """Return times against the requests that are answered per second, a point for each rate or number of clients."""
    divisors = {"ttft_s": 1.0, "tpot_s": 1e-3}
    # Answers of one token have no time per token.
    keys = [key for key in divisors if any(profile.figure(f"{key}.mean") is not None for profile in profiles)]
    panels = [_rate_panel(profiles, key, divisors[key], room) for key in keys]
    slo = profiles[0].scenario.workload.slo
    has_bands = any(f"{key}.p90" in profile.interval for key in keys for profile in profiles)
    lines = [
        "Bands are 80 % intervals of the 90th percentile." if has_bands else "",
        f"Shaded: within the SLO, for {slo.percentile:g} % of requests. Hollow points miss it." if slo else "",
        basis([profile.evidence for profile in profiles]),
    ]
    title = labels.common_title([p.scenario for p in profiles])
    return figure.specification(figure.beside(*panels, room=room, spacing=44), title, lines, room)


def _rate_panel(profiles: Sequence[Profile], key: str, divisor: float, room: Room) -> figure.Panel:
    """One time against the rate, its percentiles as lines."""
    shown, slo = dict(_SHOWN), profiles[0].scenario.workload.slo
    if slo is not None:
        shown.setdefault(f"p{slo.percentile:g}", f"{slo.percentile:g} %")
    points: list[dict[str, Any]] = []
    bands: list[dict[str, Any]] = []
    for profile in profiles:
        rate, seconds = {"requests_per_s": float(profile.requests_per_s)}, getattr(profile, key)
        good = summary.keeps_slo(profile)
        points += [
            {**rate, "time_s": seconds[part], "line": said, "good": good}
            for part, said in shown.items()
            if seconds.get(part) is not None
        ]
        low, high = profile.interval.get(f"{key}.p90", (None, None))
        if low and high:
            bands.append({"line": _SHOWN["p90"], **rate, "low_s": low, "high_s": high})
    limit = getattr(slo, key, None)
    values = [point["time_s"] for point in points] + ([] if limit is None else [limit])
    low, high = min(values) / 1.25, max(values) * 1.3
    color = figure.Series(column="line", looks=dict(zip(shown.values(), LINES, strict=False)), legend=STROKES)
    marks = figure.curve(points, color, "requests_per_s", x="requests_per_s", y="time_s", filled="datum.good")
    if bands:
        marks.insert(0, band(bands, LINES[[*_SHOWN].index("p90")]))
    if limit is not None:
        box = [{"top": limit, "bottom": low}]
        marks = [figure.mark("rect", box, y="bottom", y2="top", color=GOOD, opacity=0.12), *marks]
        row = {"line": "SLO", "time_s": limit, "text": f"SLO {units.seconds(limit)}"}
        above = {"x": {"value": 4}, "dx": 0, "dy": -4, "baseline": "bottom", "color": WARNING}
        marks += [figure.threshold(row, y="time_s"), figure.words([row], y="time_s", **above)]
    if slo is not None:
        marks += _capacity(profiles)
    unit = "seconds" if divisor == 1.0 else "milliseconds"
    y = figure.logarithmic(unit, low, high, divisor)
    return figure.Panel(
        title=TIMES[key], x=ANSWERED, y=y.clamped(), marks=marks, width=room.plot(330), height=_RATE_HEIGHT
    )


def _capacity(profiles: Sequence[Profile]) -> list[figure.Mark]:
    """A line at the highest rate that meets the objective: the searched one, or the highest of those drawn; or none."""
    rates = [float(profile.requests_per_s) for profile in profiles]
    searched = max((float(profile.capacity_requests_per_s or 0.0) for profile in profiles), default=0.0)
    rate = searched or max((rate for rate, p in zip(rates, profiles, strict=True) if summary.keeps_slo(p)), default=0.0)
    if not rate:
        return []
    said = "capacity" if searched else "meets the SLO up to"
    row = {"line": said, "requests_per_s": rate, "text": f"{said} {units.digits(rate)}/s"}
    side = {"align": "right", "dx": -5} if rate > (min(rates) + max(rates)) / 2 else {}
    low = {"y": {"value": _RATE_HEIGHT - 9}, "x": "requests_per_s", **side}
    return [figure.threshold(row, INK, x="requests_per_s"), figure.words([row], **low)]


ANSWERED = figure.Axis(title="answered requests per second", scale={"nice": False, "zero": False, "padding": 10})


def band(rows: Sequence[dict[str, Any]], color: str) -> figure.Mark:
    """The area of an interval along the rate."""
    return figure.mark("area", rows, x="requests_per_s", y="low_s", y2="high_s", color=color, opacity=0.18, clip=True)
