"""What a watch says on the terminal and in events: figures in one line, what a job departs from, what to do."""

from collections.abc import Mapping
from typing import Any, Final

from sightline.quantities import BYTES, SECONDS, TOKENS_PER_SECOND, format_quantity, percent
from sightline.watching.expected import Expected
from sightline.watching.steps import Window


def figures(line: Mapping[str, Any], between: str = "   ") -> str:
    """Return a line about steps as one reads it, such as ``step 120   84.1 ms a step   as predicted``."""
    parts = [f"step {line['step']:,}", _step(line)]
    if line.get("gap") is not None:
        parts.append(gap(line["gap"]))
    if line.get("tokens_per_s"):
        parts.append(format_quantity(line["tokens_per_s"], TOKENS_PER_SECOND))
    if line.get("mfu") is not None:
        impossible = " (more than the devices can do: not the scenario's model)" if line["mfu"] > 1.0 else ""
        parts.append(f"MFU {percent(line['mfu'], 1)}" + impossible)
    if line.get("memory_bytes"):
        parts.append(f"memory {format_quantity(line['memory_bytes'], BYTES)}")
    if line.get("input_wait_s", 0.0) >= _WAIT_WORTH * line["step_time_s"]:
        parts.append(f"input wait {format_quantity(line['input_wait_s'], SECONDS)}")
    if line.get("loss") is not None:
        parts.append(f"loss {line['loss']:.4g}")
    return between.join(parts)


_WAIT_WORTH: Final = 0.01
"""Share of the step from which waiting for input is told."""


def _step(line: Mapping[str, Any]) -> str:
    low, high = line["spread_s"]
    time = format_quantity(line["step_time_s"], SECONDS)
    return f"{time} a step" if line["steps"] < 2 else f"{time} a step ({_range(low, high)})"


def _range(low: float, high: float) -> str:
    """Two times with one unit where they have the same."""
    first, last = format_quantity(low, SECONDS), format_quantity(high, SECONDS)
    number, _, unit = first.rpartition(" ")
    return f"{number} to {last}" if last.endswith(f" {unit}") else f"{first} to {last}"


def gap(share: float) -> str:
    """Return how far a step is from the predicted one in words."""
    if abs(share) < 0.005:
        return "as predicted"
    if share >= 1.0:
        return f"{1.0 + share:.2g} x the predicted time"
    return f"{percent(abs(share))} {'slower' if share > 0 else 'faster'} than predicted"


def of_baseline(baseline: Window, expected: Expected | None) -> str:
    """Return what the steady steps take, next to what was predicted."""
    took = f"a steady step takes {format_quantity(baseline.step_time_s, SECONDS)}"
    if expected is None:
        return took
    low, high = expected.interval
    said = f"{took}, predicted {format_quantity(expected.step_time_s, SECONDS)} ({_range(low, high)})"
    if low <= baseline.step_time_s <= high:
        return said
    share = baseline.step_time_s / expected.step_time_s - 1.0
    return f"{said}: {gap(share)}, outside of the 80 % interval; later departures are judged against what it takes"


def of_replan(answer: Mapping[str, Any]) -> str:
    """Return what a search found, with the command that shows it."""
    if "error" in answer:
        return f"no better plan can be said: {answer['error']}"
    command = answer.get("command") if answer.get("advised") else ""
    return f"{answer['sentence']}; see `{command}`" if command else str(answer["sentence"])
