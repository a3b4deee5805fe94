"""What happens beside the job's own thread: steps are read, judged, written, shown, and the job is planned again."""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final

from sightline.scenario import Scenario
from sightline.watching import machine
from sightline.watching.background import Searches
from sightline.watching.detector import LAST, Departure, DepartureDetector, figures_of
from sightline.watching.expected import Expected, as_mapping, expected_of
from sightline.watching.machine import Quiet
from sightline.watching.screen import Screen, baseline_sentence, line_of, replan_sentence, samples_of_replica, summary
from sightline.watching.steps import Reported, Step, StepReader
from sightline.watching.stream import Stream

SPARSER: Final = 1000
"""A long job writes about so many lines for each time it gets e times older, down to one in `SPARSEST_S`."""
SPARSEST_S: Final = 10.0
LINGER_S: Final = 10.0
"""Seconds that the end of a job waits for a search that runs."""
STORE: Final = "writing to the store"


class Observer:
    """Reads what the job reports; every method is for its own thread, or after its end."""

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
        self.detector, self.departures = DepartureDetector(expected=expected), []  # type: DepartureDetector, list[Departure]
        self.stream: Stream | None = None
        self._reader, self._searches = StepReader(), Searches()
        self._replans, self._every_s, self._devices = replan, every_s, devices
        self._new: list[Step] = []
        self._recent: deque[Step] = deque(maxlen=LAST)
        self._began, self._wrote_at = monotonic(), 0.0
        self._has_baseline = False
        self._derived: Callable[[], Scenario] | None = None
        with quiet("the stream to the store"):
            self.stream = open_stream()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sightline-watch", daemon=True)

    @property
    def reported(self) -> deque[Reported]:
        """Where the job's own thread leaves its steps."""
        return self._reader.reported

    @property
    def last_steps(self) -> Sequence[Step]:
        """The last steps, warm or not."""
        return self._recent

    @property
    def devices(self) -> int | None:
        """Devices that work together now, where that is known."""
        return self._devices if self._devices is not None else machine.world_size()

    def start(self, now_s: float, mark: Any) -> None:
        """Begin: a step is counted from here on."""
        self._reader.begin(now_s, mark)
        self._about()
        self._thread.start()

    def derive(self, scenario: Callable[[], Scenario]) -> None:
        """Predict a scenario that is known only after the beginning, at the next look at the steps."""
        self._derived = scenario

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
        with self.quiet("replanning"):
            self._hear(self._searches.end(LINGER_S if wait else 0.0))
        return True

    def note(self, sentence: str, **figures: Any) -> None:
        """Say something, and keep it."""
        self._event({"kind": "note", "step": self._reader.number, "sentence": sentence, **figures})

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            self._tick()

    def _tick(self, *, last: bool = False) -> None:
        steps: list[Step] = []
        with self.quiet("the prediction"):
            self._expect()
        with self.quiet("reading steps"):
            steps = self._reader.read(samples_of_replica(self.expected), last=last)
            self._new += steps
            self._recent.extend(steps)
        with self.quiet("detecting changes"):
            self._judge(steps)
        with self.quiet(STORE):
            self._write(last=last)
        with self.quiet("the terminal"):
            if self.screen.is_due(last=last) and self._recent and (steps or last):
                self.screen.figures(summary(self._line(self._recent)), last=last)
        with self.quiet("replanning"):
            self._hear(self._searches.tend(self.detector, "" if self.stream is None else self.stream.folder))

    def _expect(self) -> None:
        """Take a prediction that comes after the beginning."""
        scenario, self._derived = self._derived, None
        if scenario is None:
            return
        try:
            self.expected = expected_of(scenario())
        except Exception as error:  # noqa: BLE001 - of models and arguments there are many
            reason = "; ".join(str(error).splitlines()) or type(error).__name__
            self.note(f"no scenario could be derived, so only measurements are shown: {reason}")
            return
        self.detector, self._has_baseline = DepartureDetector(expected=self.expected), False
        self._about()

    def _judge(self, steps: Sequence[Step]) -> None:
        number = self._reader.number
        found = [self.detector.see_devices(self.devices, number), *self.detector.see(steps)]
        found.append(self.detector.see_memory(*machine.memory_bytes(), number))
        for departure in filter(None, found):
            self._departed(departure)
        baseline = self.detector.baseline
        if baseline is not None and not self._has_baseline:
            self._has_baseline = True
            # After a departure the first prediction is that of another situation.
            expected = None if self.departures else self.expected
            said = baseline_sentence(baseline.window, expected)
            self._event({"kind": "baseline", "step": number, "step_time_s": baseline.step_time_s, "sentence": said})

    def _departed(self, departure: Departure) -> None:
        self.departures.append(departure)
        if departure.cause != "assumption":
            # One that came back has been told of.
            self._has_baseline = self.detector.baseline is not None
        self._event({"kind": "departure", "sentence": departure.sentence, **figures_of(departure)})
        if departure.cause == "recovered":
            self._searches.forget()
        elif self._replans and self.expected is not None and departure.can_replan:
            self._searches.ask(departure)

    def _hear(self, answer: Mapping[str, Any] | None) -> None:
        if answer is not None:
            said = {key: value for key, value in answer.items() if key != "error"}
            kind = "note" if "error" in answer else "replan"
            self._event({"kind": kind, "step": self._reader.number, **said, "sentence": replan_sentence(answer)})

    def _event(self, line: Mapping[str, Any]) -> None:
        with self.quiet("the terminal"):
            self.screen.say(str(line["sentence"]))
        with self.quiet(STORE):
            if self._writes and self.stream is not None:
                self.stream.event(line)

    def _about(self) -> None:
        with self.quiet(STORE):
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
        return STORE not in self.quiet.failed

    def _write(self, *, last: bool) -> None:
        age = monotonic() - self._began
        every_s = max(self._every_s, min(age / SPARSER, SPARSEST_S))
        if not self._new or not self._writes or (not last and age - self._wrote_at < 0.99 * every_s):
            return
        line, self._wrote_at, self._new = self._line(self._new), age, []
        if self.stream is not None:
            self.stream.steps(line)

    def _line(self, steps: Sequence[Step]) -> dict[str, Any]:
        """The figures of some steps, and how the job is now."""
        expected, length = self.expected, self.detector.sequence_length
        line = line_of(steps, expected, devices=self.devices, sequence_length=length)
        loss = {} if self._reader.loss is None else {"loss": self._reader.loss}
        return {**line, "elapsed_s": monotonic() - self._began, **loss}
