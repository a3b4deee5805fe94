"""Several predictions side by side: step time by phase and memory by part, a line per scenario."""

from collections.abc import Sequence
from typing import Any

from sightline.profile import Profile
from sightline.report import look, summary, units

_WIDTH = 330
_MOST = 60


def comparison_chart(profiles: Sequence[Profile]) -> dict[str, Any]:
    """Return the Vega-Lite specification; of very many scenarios the fastest per device are drawn."""
    import altair as alt

    labels = summary.variant_labels([p.scenario for p in profiles])
    chosen = list(zip(labels, profiles, strict=True))
    lines = ["Step time by phase and memory of the fullest device by part; the tick is the device's memory."]
    if len(chosen) > _MOST:
        chosen.sort(key=lambda pair: -float(pair[1].tokens_per_s_per_device))
        chosen = chosen[:_MOST]
        lines.append(f"The {_MOST} with most tokens per second and device of {len(profiles):,}.")
    rows = [label for label, _ in chosen]
    chart = alt.hconcat(_times(chosen, rows), memory_bars(chosen, rows), spacing=36).resolve_scale(color="independent")
    return look.configure(chart, comparison_title(profiles), lines)


def comparison_title(profiles: Sequence[Profile]) -> str:
    """Return the scenarios' common name, or how many they are."""
    names = list(dict.fromkeys(summary.title(p.scenario) for p in profiles))
    return names[0] if len(names) == 1 else f"{len(profiles):,} scenarios compared"


def _times(chosen: Sequence[tuple[str, Profile]], rows: list[str]) -> Any:
    stacks = [(label, summary.phases(p), float(p.step_time_s), _rate(p)) for label, p in chosen]
    return time_bars(stacks, rows, "Step time")


def _rate(profile: Profile) -> str:
    return f"{units.seconds(float(profile.step_time_s))} · {units.digits(float(profile.tokens_per_s))} tokens/s"


def time_bars(
    stacks: Sequence[tuple[str, Sequence[summary.Part], float, str]], rows: list[str], title: str, room: float = 1.62
) -> Any:
    """Return a stacked bar per scenario: its label, parts, seconds in all and the text behind the bar.

    ``room`` is the width for bar and text over that of the longest bar.
    """
    divisor, unit = units.time_unit(max(total_s for _, _, total_s, _ in stacks))
    bars = [bar for label, parts, _, _ in stacks for bar in _stack(label, parts, divisor)]
    texts = [{"row": label, "end": total_s / divisor, "text": text} for label, _, total_s, text in stacks]
    reach = max(total_s for _, _, total_s, _ in stacks) / divisor * room
    return _panel(bars, texts, rows, look.PHASE_COLOURS, f"{title} ({unit})", reach, named=True)


def memory_bars(chosen: Sequence[tuple[str, Profile]], rows: list[str]) -> Any:
    """Return a stacked bar of memory by part per scenario, with a tick at what may be filled."""
    import altair as alt

    bars = [bar for label, p in chosen for bar in _stack(label, summary.memory(p), 2**30)]
    texts: list[dict[str, Any]] = []
    ticks: list[dict[str, Any]] = []
    for label, p in chosen:
        total, there = float(p.memory_bytes["total"]), summary.usable_bytes(p)
        verdict = units.gib(total) if p.fits else f"{units.gib(total)}, does not fit"
        texts.append({"row": label, "end": max(total, there) / 2**30, "text": verdict})
        ticks.append({"row": label, "there": there / 2**30})
    reach = max(t["end"] for t in texts) * 1.5
    panel = _panel(bars, texts, rows, look.MEMORY_COLOURS, "Memory of the fullest device (GiB)", reach, named=False)
    tick = alt.Chart(alt.InlineData(values=ticks)).mark_tick(thickness=2, size=look.ROW_HEIGHT, color=look.WARNING)
    return alt.layer(panel, tick.encode(x="there:Q", y=alt.Y("row:N", sort=rows)))


def _stack(label: str, parts: Sequence[summary.Part], divisor: float) -> list[dict[str, Any]]:
    bars: list[dict[str, Any]] = []
    start = 0.0
    for part in parts:
        end = start + part.value / divisor
        bars.append({"row": label, "part": part.label, "start": start, "end": end})
        start = end
    return bars


def _panel(
    bars: list[dict[str, Any]],
    texts: list[dict[str, Any]],
    rows: list[str],
    colours: dict[str, str],
    title: str,
    reach: float,
    *,
    named: bool,
) -> Any:
    import altair as alt

    used = {bar["part"] for bar in bars}
    palette = {summary.LABELS.get(key, key): colour for key, colour in colours.items()}
    palette = {part: colour for part, colour in palette.items() if part in used}
    legend = alt.Legend(title=None, orient="bottom", columns=3, offset=8)
    colour = alt.Color("part:N", scale=alt.Scale(domain=list(palette), range=list(palette.values()))).legend(legend)
    x = alt.X(
        "start:Q",
        title=None,
        scale=alt.Scale(domain=[0, reach], nice=False),
        axis=alt.Axis(tickCount=5, labelFlush=False),
    )
    axis = alt.Axis(grid=False, labels=named)
    y = alt.Y("row:N", sort=rows, title=None, axis=axis, scale=alt.Scale(paddingInner=0.25))
    drawn = alt.Chart(alt.InlineData(values=bars)).mark_bar().encode(x=x, x2="end:Q", y=y, color=colour)
    text = alt.Chart(alt.InlineData(values=texts)).mark_text(align="left", dx=6, fontSize=11, color=look.INK)
    heading = alt.TitleParams(title, anchor="start", fontSize=13, offset=8)
    return alt.layer(drawn, text.encode(x="end:Q", y=y, text="text:N")).properties(
        width=_WIDTH, height=look.ROW_HEIGHT * len(rows), title=heading
    )
