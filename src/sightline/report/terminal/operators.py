"""Operators that one run measured, by kind: all of few, of many those that reach most and least."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from sightline.report import summary, units
from sightline.report.terminal.listing import Column, Listing

_MOST, _EACH = 14, 5
"""Operators of a kind that are all listed, and how many of the best and worst of more."""
_NOT_SIZES = ("task", "operator", "dtype")


class _Line(NamedTuple):
    kind: str
    sizes: str
    time_s: float
    flops_per_s: float
    bytes_per_s: float

    @property
    def rate(self) -> tuple[bool, float]:
        """What kinds are ranked by: FLOP/s, or bytes/s of those that compute nothing."""
        return self.flops_per_s > 0, self.flops_per_s or self.bytes_per_s


def operators_of_suite(results: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return the operators of a run's ``results``, and which of them could not be measured."""
    kinds: dict[str, list[_Line]] = {}
    for line in _lines(results):
        kinds.setdefault(line.kind, []).append(line)
    shown = [(_title(kind, of), line) for kind, of in kinds.items() for line in _chosen(of)]
    failed = [str(result["reason"]) for result in results if "reason" in result]
    blocks: list[RenderableType] = [_listing(shown)] if shown else []
    if failed:
        blocks += [Text(), Text(f"{len(failed):,} not measured: {failed[0]}", style="red")]
    return Group(*blocks)


def _lines(results: Sequence[Mapping[str, Any]]) -> Iterator[_Line]:
    for result in results:
        seconds = result.get("time_s")
        work = (result.get("scenario") or {}).get("workload") or {}
        if seconds:
            rates = (float(result.get(key) or 0.0) / seconds for key in ("flops", "bytes"))
            sizes = ", ".join(f"{key} {value}" for key, value in work.items() if key not in _NOT_SIZES)
            kind = " ".join(str(work[key]) for key in ("operator", "dtype") if key in work)
            yield _Line(kind or "operator", sizes, float(seconds), *rates)


def _chosen(lines: Sequence[_Line]) -> list[_Line]:
    """The lines by what they reach, best first; of very many the two ends."""
    ranked = sorted(lines, key=lambda line: line.rate, reverse=True)
    return ranked if len(ranked) <= _MOST else [*ranked[:_EACH], *ranked[-_EACH:]]


def _title(kind: str, lines: Sequence[_Line]) -> str:
    times = sorted(line.time_s for line in lines)
    said = f"{kind}: {len(lines):,} measured, {units.seconds(times[0])} to {units.seconds(times[-1])}"
    return said if len(lines) <= _MOST else f"{said}; showing the {_EACH} fastest and the {_EACH} slowest"


def _listing(shown: Sequence[tuple[str, _Line]]) -> Listing:
    lines = [line for _, line in shown]
    return Listing(
        labels=[Column(heading="operator", cells=[f"  {line.sizes}" for line in lines], is_number=False)],
        figures=[
            Column(heading="time", cells=[units.seconds(line.time_s) for line in lines]),
            Column(heading="FLOP/s", cells=[_rate(line.flops_per_s) for line in lines]),
            Column(heading="bytes/s", cells=[_rate(line.bytes_per_s) for line in lines]),
        ],
        groups=[title for title, _ in shown],
        group_style="bold",
        group_gap=True,
    )


def _rate(value: float) -> str:
    return units.rate(value, "") if value else summary.NOTHING
