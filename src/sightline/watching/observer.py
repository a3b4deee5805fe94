"""What happens beside the job's own thread: steps are read, judged, written, shown, and the job is planned again."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final

from sightline.scenario import Scenario
from sightline.watching import machine, words
from sightline.watching.background import Replanner
from sightline.watching.departures import LAST, Departure, Judge
from sightline.watching.expected import Expected, as_mapping, expected_of
from sightline.watching.quiet import Quiet
from sightline.watching.screen import Screen
from sightline.watching.steps import Reported, Step, Window, number_of, window_of
from sightline.watching.stream import Stream

MOST_BEHIND: Final = 100_000
"""Steps that wait to be read at most, if nobody reads them."""
SPARSER: Final = 1000
"""A long job writes about so many lines for each time it gets e times older, down to one in `SPARSEST_S`."""
SPARSEST_S: Final = 10.0
LINGER_S: Final = 10.0
"""Seconds that the end of a job waits for a search that runs."""


class Observer:
    """Reads what the job reports; every method but ``report`` is for its own thread, or after its end."""

    def __init__(
        self,
        *,
        expected: Expected | None,
        open_stream: Callable[[], Stream],
        screen: Screen,
        quiet: Quiet,
        replan: bool,
        every_s: float,
        devices: int | None,
    ) -> None:
        self.expected, self.screen, self.quiet = expected, screen, quiet
        self.judge = Judge(expected=expected)
        self.reported: deque[Reported] = deque(maxlen=MOST_BEHIND)
        self.stream: Stream | None = None
        self._replans, self._every_s, self._devices = replan, every_s, devices
        self._replanner, self._asked = Replanner(), deque[Departure](maxlen=1)
        self._link_factor, self._searches = 1.0, 0
        self._new: list[Step] = []
        self._recent: deque[Step] = deque(maxlen=LAST)
        self._step, self._loss = 0, None  # type: int, float | None
        self._began, self._wrote_at, self._end_s, self._mark = monotonic(), 0.0, 0.0, None  # type: float, float, float, Any
        self._has_baseline = False
        self._derived: Callable[[], Scenario] | None = None
        self.departures: list[Departure] = []
        with quiet("the stream to the store"):
            self.stream = open_stream()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sightline-watch", daemon=True)

    def start(self, now_s: float, mark: Any) -> None:
        """Begin: a step is counted from here on."""
        self._end_s, self._mark = now_s, mark
        self._about()
        self._thread.start()

    def derive(self, scenario: Callable[[], Scenario]) -> None:
        """Predict a scenario that is known only after the beginning, at the next look at the steps."""
        self._derived = scenario

    def _expect(self) -> None:
        """Take a prediction that comes after the beginning."""
        scenario, self._derived = self._derived, None
        if scenario is None:
            return
        try:
            self.expected = expected_of(scenario())
        except Exception as error:  # noqa: BLE001 - of models and arguments there are many
            reason = "; ".join(str(error).splitlines()) or type(error).__name__
            self.note(f"no scenario can be derived, so only what is measured is told: {reason}")
            return
        self.judge, self._has_baseline = Judge(expected=self.expected), False
        self._about()

    def stop(self, *, wait: bool) -> bool:
        """End the thread, look at the last steps, and wait a little for a search that runs.

        Returns:
            Whether the thread has ended; one that hangs in a store that does not answer is left alone.
        """
        self._stopped.set()
        self._thread.join(timeout=LINGER_S)
        if self._thread.is_alive():
            return False
        self._tick(last=True)
        with self.quiet("planning again"):
            if self._replanner.is_busy and wait:
                self._hear(self._replanner.answer(LINGER_S))
            self._replanner.stop()
        return True

    def note(self, sentence: str, **figures: Any) -> None:
        """Say something, and keep it."""
        self._event({"kind": "note", "step": self._step, "sentence": sentence, **figures})

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            self._tick()

    def _tick(self, *, last: bool = False) -> None:
        with self.quiet("the prediction"):
            self._expect()
        with self.quiet("reading steps"):
            steps = self._read(last=last)
            self._new += steps
            self._recent.extend(steps)
        with self.quiet("looking for departures"):
            self._judge(steps)
        with self.quiet("writing to the store"):
            self._write(last=last)
        with self.quiet("the terminal"):
            if self._recent and (steps or last):
                self.screen.figures(words.figures(self._line(list(self._recent))), last=last)
        with self.quiet("planning again"):
            self._replan()

    def _read(self, *, last: bool) -> list[Step]:
        """Return the steps that the device has done too."""
        found, loss = [], None
        while self.reported:
            one = self.reported[0]
            if not machine.has_passed(one.mark) and not last:
                break
            self.reported.popleft()
            found.append(self._step_of(one))
            loss = loss if one.loss is None else one.loss
        # Reading a tensor takes a copy from the device: once in a while, not for every step.
        self._loss = self._loss if loss is None else number_of(loss)
        return found

    def _step_of(self, one: Reported) -> Step:
        self._step += 1
        device_s = machine.seconds_between(self._mark, one.mark)
        host_s, self._end_s, self._mark = one.end_s - self._end_s, one.end_s, one.mark
        tokens = number_of(one.tokens)
        return Step(
            number=self._step,
            time_s=host_s if device_s is None else device_s,
            wait_s=one.wait_s,
            tokens=tokens,
            sequence_length=number_of(one.sequence_length) or self._tokens_of_sample(tokens),
            parts=one.parts or {},
        )

    def _tokens_of_sample(self, tokens: float | None) -> float | None:
        """Tokens of a sample, where a replica works on the samples that the scenario says."""
        if tokens is None or self.expected is None:
            return None
        scenario = self.expected.scenario
        return tokens * float(scenario.plan.data_parallel) / float(scenario.workload.global_batch)

    def _judge(self, steps: Sequence[Step]) -> None:
        found = [self.judge.see_devices(self.devices, self._step), *self.judge.see(steps)]
        found.append(self.judge.see_memory(*machine.memory_bytes(), self._step))
        for departure in filter(None, found):
            self._departed(departure)
        if self.judge.baseline is not None and not self._has_baseline:
            self._has_baseline = True
            # After a departure the first prediction is that of another situation.
            expected = None if self.departures else self.expected
            self._event({
                "kind": "baseline",
                "step": self._step,
                "step_time_s": self.judge.baseline.step_time_s,
                "sentence": words.of_baseline(self.judge.baseline, expected),
            })  # fmt: skip

    @property
    def last_steps(self) -> Sequence[Step]:
        """The last steps, warm or not."""
        return self._recent

    @property
    def devices(self) -> int | None:
        """Devices that work together now, where that is known."""
        return self._devices if self._devices is not None else machine.world_size()

    def _departed(self, departure: Departure) -> None:
        self.departures.append(departure)
        self._has_baseline = self.judge.baseline is not None
        if departure.cause == "link":
            self._link_factor *= departure.factor
        figures = {key: getattr(departure, key) for key in _FIGURES if getattr(departure, key) is not None}
        self._event({"kind": "departure", "sentence": departure.sentence, **figures})
        if self._replans and self.expected is not None and departure.can_replan:
            self._asked.append(departure)

    def _replan(self) -> None:
        """Hear of a search that has ended, and begin the one that was asked for last."""
        self._hear(self._replanner.answer())
        # What a step takes on other devices is known once some have been measured there.
        is_early = bool(self._asked) and self._asked[0].cause == "devices" and self.judge.baseline is None
        if self._asked and not is_early and not self._replanner.is_busy:
            self._searches += 1
            self._replanner.start(self._question(self._asked.popleft()))

    def _question(self, departure: Departure) -> dict[str, Any]:
        assert self.expected is not None  # noqa: S101 - nothing is asked without a scenario
        baseline = self.judge.baseline
        measured = baseline.step_time_s if baseline and departure.cause == "devices" else departure.measured_s
        return {
            "scenario": as_mapping(self.expected.scenario),
            "cause": departure.cause,
            **self._changed(),
            "measured_s": measured,
            "link_factor": self._link_factor,
            "memory": machine.memory_bytes()[0] if departure.cause == "memory" else None,
            "folder": "" if self.stream is None else self.stream.folder,
            "name": f"replan-{self._searches}",
        }

    def _changed(self) -> dict[str, Any]:
        """Devices and tokens of a sample as the job has them, where they are not the scenario's."""
        return {"devices": self.judge.devices, "sequence_length": self.judge.sequence_length}

    def _hear(self, answer: Mapping[str, Any] | None) -> None:
        if answer is not None:
            said = {key: value for key, value in answer.items() if key != "error"}
            kind = "note" if "error" in answer else "replan"
            self._event({"kind": kind, "step": self._step, **said, "sentence": words.of_replan(answer)})

    def _event(self, line: Mapping[str, Any]) -> None:
        with self.quiet("the terminal"):
            self.screen.say(str(line["sentence"]))
        with self.quiet("writing to the store"):
            if self._writes and self.stream is not None:
                self.stream.event(line)

    def _about(self) -> None:
        with self.quiet("writing to the store"):
            if self.stream is not None:
                self.stream.about({
                    "scenario": {} if self.expected is None else as_mapping(self.expected.scenario),
                    "predicted": None if self.expected is None else self.expected.to_dict(),
                    "devices": self.devices,
                    "every_s": self._every_s,
                    "folder": self.stream.folder,
                })  # fmt: skip

    @property
    def _writes(self) -> bool:
        """Whether the store still takes what is written: a hole in a stream would look like a job that stood still."""
        return "writing to the store" not in self.quiet.failed

    def _write(self, *, last: bool) -> None:
        age = monotonic() - self._began
        every_s = max(self._every_s, min(age / SPARSER, SPARSEST_S))
        if not self._new or not self._writes or (not last and age - self._wrote_at < 0.99 * every_s):
            return
        line, self._wrote_at, self._new = self._line(self._new), age, []
        if self.stream is not None:
            self.stream.steps(line)

    def _line(self, steps: Sequence[Step]) -> dict[str, Any]:
        """The figures of some steps."""
        window = window_of(steps)
        tokens, seconds = self.tokens(window), window.step_time_s
        line: dict[str, Any] = {
            "step": self._step,
            "steps": window.steps,
            "elapsed_s": monotonic() - self._began,
            "step_time_s": seconds,
            "spread_s": list(window.spread_s),
            "input_wait_s": window.wait_s,
            "memory_bytes": machine.memory_bytes()[0],
            "tokens_per_s": tokens / seconds if tokens and seconds else None,
            "sequence_length": window.sequence_length,
            "loss": self._loss,
        }
        if self.expected is not None and seconds:
            devices = self.devices or self.expected.devices
            line["gap"] = seconds / self.expected.step_time_s - 1.0
            line["mfu"] = self.expected.mfu_at(seconds, tokens or self.expected.tokens, devices)
        if window.parts:
            line["parts"] = dict(window.parts)
        return {key: value for key, value in line.items() if value is not None}

    def tokens(self, window: Window) -> float | None:
        """Return the tokens of a step on all devices; as the scenario says where the job does not."""
        if self.expected is None:
            return None if window.tokens is None else window.tokens * (self.devices or 1)
        plan, devices = self.expected.scenario.plan, self.devices or self.expected.devices
        if window.tokens is not None:
            return window.tokens * float(plan.data_parallel) * devices / self.expected.devices
        length = self.judge.sequence_length or float(self.expected.scenario.workload.sequence_length)
        longer = length / float(self.expected.scenario.workload.sequence_length)
        return self.expected.tokens * longer * devices / self.expected.devices


_FIGURES: Final = ("cause", "step", "measured_s", "was_s", "devices", "sequence_length", "part", "factor")
