"""Show a watch on the terminal: one line of figures that changes in place, plain lines where there is no terminal."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import get_ident
from time import monotonic
from typing import Any, Final

from sightline.profile.results import measured_rates
from sightline.quantities import BYTES, SECONDS, TOKENS_PER_SECOND, format_quantity, percent, relative
from sightline.watching import readings
from sightline.watching.expected import Expected
from sightline.watching.readings import Step, Window, window_of


def line_of(
    steps: Sequence[Step], expected: Expected | None, *, devices: int | None, sequence_length: float | None
) -> dict[str, Any]:
    """Return what some steps come to; what is not known is left out.

    Args:
        steps: One or more.
        expected: The prediction, for the gap to it and for utilization.
        devices: Those that work together, where that is known.
        sequence_length: Tokens of a sample that are expected now.
    """
    window = window_of(steps)
    tokens, seconds = tokens_of(window, expected, devices, sequence_length), window.step_time_s
    line: dict[str, Any] = {
        "step": steps[-1].number,
        "steps": window.steps,
        "step_time_s": seconds,
        "spread_s": list(window.spread_s),
        "input_wait_s": window.wait_s,
        "memory_bytes": readings.memory_bytes()[0],
        "tokens_per_s": tokens / seconds if tokens and seconds else None,
        "sequence_length": window.sequence_length,
    }
    if expected is not None and seconds:
        line["gap"] = seconds / expected.step_time_s - 1.0
        line["mfu"] = measured_rates(expected, seconds, tokens=tokens, devices=devices)["mfu"]
    if window.parts:
        line["parts"] = dict(window.parts)
    return {key: value for key, value in line.items() if value is not None}


def tokens_of(
    window: Window, expected: Expected | None, devices: int | None, sequence_length: float | None
) -> float | None:
    """Return the tokens of a step on all devices; as the scenario says where the job does not."""
    if expected is None:
        return None if window.tokens is None else window.tokens * (devices or 1)
    share = (devices or expected.devices) / expected.devices
    if window.tokens is not None:
        return window.tokens * float(expected.scenario.plan.data_parallel) * share
    asked = float(expected.scenario.workload.sequence_length)
    return expected.tokens * (sequence_length or asked) / asked * share


def samples_of_replica(expected: Expected | None) -> float | None:
    """Return the samples of a step on one replica, as the scenario says."""
    if expected is None:
        return None
    scenario = expected.scenario
    return float(scenario.workload.global_batch) / float(scenario.plan.data_parallel)


def summary(line: Mapping[str, Any], between: str = "   ") -> str:
    """Return a line about steps as one reads it, such as ``step 120   84.1 ms a step   as predicted``."""
    parts = [f"step {line['step']:,}", _step(line)]
    if line.get("gap") is not None:
        parts.append(gap(line["gap"]))
    if line.get("tokens_per_s"):
        parts.append(format_quantity(line["tokens_per_s"], TOKENS_PER_SECOND))
    if line.get("mfu") is not None:
        impossible = " (more than the devices can do: the model differs from the scenario)" if line["mfu"] > 1.0 else ""
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
    return f"{time} per step" if line["steps"] < 2 else f"{time} per step ({_range(low, high)})"


def _range(low: float, high: float) -> str:
    """Two times with one unit where they have the same."""
    first, last = format_quantity(low, SECONDS), format_quantity(high, SECONDS)
    number, _, unit = first.rpartition(" ")
    return f"{number} to {last}" if last.endswith(f" {unit}") else f"{first} to {last}"


def gap(share: float) -> str:
    """Return how far a step is from the predicted one in words."""
    return "as predicted" if abs(share) < 0.005 else f"{relative(1.0 + share)} than predicted"


def baseline_sentence(baseline: Window, expected: Expected | None) -> str:
    """Return what the steady steps take, next to what was predicted."""
    took = f"a steady step takes {format_quantity(baseline.step_time_s, SECONDS)}"
    if expected is None:
        return took
    low, high = expected.interval
    said = f"{took}, predicted {format_quantity(expected.step_time_s, SECONDS)} ({_range(low, high)})"
    if low <= baseline.step_time_s <= high:
        return said
    share = baseline.step_time_s / expected.step_time_s - 1.0
    return f"{said}: {gap(share)}, outside the 80 % interval; later changes are relative to the measured step time"


def replan_sentence(answer: Mapping[str, Any]) -> str:
    """Return what a search found, with the command that shows it."""
    if "error" in answer:
        return f"no better plan found: {answer['error']}"
    command = answer.get("command") if answer.get("advised") else ""
    return f"{answer['sentence']}; see `{command}`" if command else str(answer["sentence"])


PLAIN_EVERY_S: Final = 30.0
"""Seconds between two lines where they stay."""


class Screen:
    """Writes to standard error, so that what the job prints stays what it is."""

    def __init__(self, *, show: bool, in_place: bool = True) -> None:
        self.is_shown = show
        self._wants_place, self._console, self._told_at = in_place, None, 0.0  # type: bool, Any, float
        self._line_of_others = _LineOfOthers(self._clear)
        self._is_open = False

    def is_due(self, *, last: bool = False) -> bool:
        """Return whether figures would be shown now."""
        if not self.is_shown:
            return False
        return last or self._changes_in_place or not self._told_at or monotonic() - self._told_at >= PLAIN_EVERY_S

    def figures(self, text: str, *, last: bool = False) -> None:
        """Show the figures of now, if they are due; the ``last`` ones stay."""
        if not self.is_due(last=last):
            return
        self._told_at = monotonic()
        if self._changes_in_place:
            self._in_place(text, stays=last)
        else:
            self._line(text)
        if last:
            self._line_of_others.leave()

    def begin(self, run: str) -> None:
        """Say where the figures of a ``run`` are, unless a line shows them in place."""
        if self.is_shown and not self._changes_in_place:
            stored = f"; the steps are stored as run {run}" if run else ""
            self._line(f"watching: figures every {PLAIN_EVERY_S:g} s{stored}")

    def say(self, sentence: str) -> None:
        """Say something once."""
        if self.is_shown:
            self._line(sentence)

    @property
    def _changes_in_place(self) -> bool:
        """Whether there is a line to change: a job that is in the middle of a line of its own keeps it."""
        return self._wants_place and bool(self._rich().is_terminal) and not self._line_of_others.is_begun

    def _rich(self) -> Any:
        if self._console is None or self._console.file is not sys.stderr:
            from rich.console import Console

            self._console = Console(file=sys.stderr, highlight=False, soft_wrap=False)
        return self._console

    def _in_place(self, text: str, *, stays: bool) -> None:
        """Write over the line before; the cursor waits at its start, where what the job prints begins."""
        from rich.text import Text

        self._line_of_others.follow()
        self._line_of_others.writer = get_ident()
        self._erase()
        self._is_open = not stays
        words = Text.assemble(("sightline ", "bold"), text)
        self._rich().print(words, end="\n" if stays else "\r", no_wrap=True, overflow="ellipsis")

    def _line(self, text: str) -> None:
        self._line_of_others.writer = get_ident()
        self._clear()
        # A command must stay one line to be copied.
        after = "\n" if self._line_of_others.take_begun() else ""
        self._rich().print(f"{after}sightline: {text}", markup=False, soft_wrap=True)

    def _clear(self) -> None:
        """Leave an empty line in place of the one that changes."""
        if self._is_open:
            self._is_open = False
            self._erase()

    def _erase(self) -> None:
        from rich.control import Control
        from rich.segment import ControlType

        console = self._rich()
        console.control(Control((ControlType.CARRIAGE_RETURN,), (ControlType.ERASE_IN_LINE, 2)))
        console.file.flush()


class _LineOfOthers:
    """What the job itself writes to the terminal, so that nothing of another line is left behind it.

    The streams stay the job's own; only their ``write`` first clears the line that changes. No lock is held: a process
    that the job forks would wait for it.
    """

    def __init__(self, clear: Any) -> None:
        self._clear, self._process, self._streams = clear, os.getpid(), []  # type: Any, int, list[Any]
        self.writer = 0
        """The thread that writes for the watch."""
        self.is_begun = False
        """Whether the job has begun a line and not ended it."""

    def follow(self) -> None:
        """Look at what is written from now on."""
        for stream in (sys.stdout, sys.stderr):
            if not any(stream is one for one in self._streams) and _is_terminal(stream):
                with suppress(AttributeError, TypeError):
                    stream.write = self._writing(stream.write)  # type: ignore[method-assign]
                    self._streams.append(stream)

    def leave(self) -> None:
        """Look no more."""
        for stream in self._streams:
            with suppress(AttributeError):
                del stream.write
        self._streams.clear()

    def take_begun(self) -> bool:
        """Return whether the job's line has not ended; what follows begins another."""
        begun, self.is_begun = self.is_begun, False
        return begun

    def _writing(self, write: Any) -> Any:
        def cleared(text: str) -> Any:
            if get_ident() == self.writer or os.getpid() != self._process:
                return write(text)
            self._clear()
            self.is_begun = bool(text) and not text.endswith("\n")
            return write(text)

        return cleared


def _is_terminal(stream: Any) -> bool:
    with suppress(AttributeError, ValueError):
        return bool(stream.isatty())
    return False
