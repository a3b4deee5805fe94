"""What happens beside the job's own thread: steps are read, judged, written, shown, and the job is planned again.

Searches run in a process of their own. At the end, the watch comes to the result keys of a measured run.
"""

import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final

from sightline.profile.results import measured_rates, median_interval
from sightline.scenario import Scenario
from sightline.watching import readings
from sightline.watching.detector import BASELINE, LAST, Departure, DepartureDetector, figures_of
from sightline.watching.expected import Expected, as_mapping, expected_of
from sightline.watching.readings import Quiet, Reported, Step, StepReader, Window, median, window_of
from sightline.watching.replanning import scenario_now
from sightline.watching.screen import (
    Screen,
    baseline_sentence,
    line_of,
    replan_sentence,
    samples_of_replica,
    summary,
    tokens_of,
)
from sightline.watching.stream import Stream


class Replanner:
    """One search at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._output: Any = None

    @property
    def is_busy(self) -> bool:
        """Whether a search runs, or its answer has not been read."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return None if self._process is None else self._process.pid

    def start(self, question: Mapping[str, Any]) -> None:
        """Start a search."""
        # Files, not pipes: nobody here waits until the other side has read or written.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the answer has been read
        with tempfile.TemporaryFile() as said:
            said.write(json.dumps(question).encode())
            said.seek(0)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "sightline.watching.replanning"],
                stdin=said,
                stdout=self._output,
                stderr=subprocess.DEVNULL,
                env=_quiet(),
                start_new_session=True,
            )

    def answer(self, wait_s: float = 0.0) -> dict[str, Any] | None:
        """Return what was found, or ``error``; None while it is still searched or where nothing is.

        Args:
            wait_s: Seconds to wait for it.
        """
        process = self._process
        if process is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)
        if process.poll() is None:
            return None
        self._output.seek(0)
        text = self._output.read()
        self._forget()
        try:
            found = json.loads(text)
        except ValueError:
            return {"error": f"the search for a better plan ended early (exit status {process.returncode})"}
        return found if isinstance(found, dict) else None

    def stop(self) -> None:
        """End the search that runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._forget()

    def _forget(self) -> None:
        self._process = None
        self._output.close()


class Searches:
    """Searches for a better plan after departures: one at a time, and the next one for the last departure."""

    def __init__(self) -> None:
        self._replanner, self._asked, self._count = Replanner(), deque[Departure](maxlen=1), 0

    def ask(self, departure: Departure) -> None:
        """Search once nothing else is searched; an earlier departure that still waits is forgotten."""
        self._asked.append(departure)

    def forget(self) -> None:
        """Drop what is searched and what waits: the situation has passed."""
        self._asked.clear()
        self._replanner.stop()

    def tend(self, detector: DepartureDetector, folder: str) -> dict[str, Any] | None:
        """Return the answer of a search that has ended, and begin the one that was asked for last."""
        answer = self._replanner.answer()
        # What a step takes on other devices is known once some have been measured there.
        is_early = bool(self._asked) and self._asked[0].cause == "devices" and len(detector.steady) < BASELINE
        if self._asked and not is_early and not self._replanner.is_busy:
            self._count += 1
            question = _question(self._asked.popleft(), detector)
            self._replanner.start({**question, "folder": folder, "name": f"replan-{self._count}"})
        return answer

    def end(self, wait_s: float) -> dict[str, Any] | None:
        """Return the answer of the search that runs if it comes in time, and end it."""
        answer = self._replanner.answer(wait_s) if wait_s else None
        self._replanner.stop()
        return answer


def _question(departure: Departure, detector: DepartureDetector) -> dict[str, Any]:
    """What a search has to know of a departure."""
    assert detector.expected is not None  # noqa: S101 - nothing is asked without a scenario
    steady = [step.time_s for step in detector.steady]
    return {
        "scenario": as_mapping(detector.expected.scenario),
        "cause": departure.cause,
        "devices": detector.devices,
        "sequence_length": detector.sequence_length,
        "link_factor": detector.link_factor,
        "measured_s": median(steady) if steady and departure.cause == "devices" else departure.measured_s,
        "memory": readings.memory_bytes()[0] if departure.cause == "memory" else None,
    }


def _quiet() -> dict[str, str]:
    """The environment of a search: one thread, no device, nothing of the job's group of processes."""
    others = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    kept = {key: value for key, value in os.environ.items() if key not in others}
    return (
        kept
        | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        | {"CUDA_VISIBLE_DEVICES": ""}
    )


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
        return self._devices if self._devices is not None else readings.world_size()

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
        found.append(self.detector.see_memory(*readings.memory_bytes(), number))
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


def finish(observer: Observer, name: str, error: BaseException | None) -> None:
    """End the run of a watch whose observer has stopped.

    Args:
        observer: With a stream.
        name: Of the run; empty for the scenario's.
        error: Of the job, if any.
    """
    stream = observer.stream
    if stream is None:
        return
    status, reason = status_of(error)
    result, scenario = result_of(observer)
    named = {"name": name or scenario.get("name") or stream.name, "environment": environment()}
    stream.finish(status=status, reason=reason, result=result, scenario=scenario, **named)


def result_of(observer: Observer) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return the result keys of the steps since the last change, and the scenario that ran them; empty without steps.

    After fewer devices or longer sequences the scenario is the one of then, so that the run can anchor others.
    """
    steps = list(observer.detector.steady) or list(observer.last_steps)
    expected = _expected_now(observer)
    asked = {} if expected is None else as_mapping(expected.scenario)
    if not steps:
        return {}, asked
    window = window_of(steps)
    low, high = median_interval([step.time_s for step in steps])
    seconds = window.step_time_s
    result: dict[str, Any] = {
        "source": "measured",
        "fits": True,
        "step_time_s": seconds,
        "interval": {"step_time_s": [low, high]},
        "measurement": {
            "implementation": "watched job",
            "steps": window.steps,
            "spread_s": dict(zip(("p10", "p90"), window.spread_s, strict=True)),
            "input_wait_s": window.wait_s,
            "parts": dict(window.parts),
        },
        "warnings": [departure.sentence for departure in observer.departures],
    }
    if (held := readings.memory_bytes()[0]) is not None:
        result["memory_bytes"] = {"total": held}
    return result | _rates(observer, window, expected, (low, high)), asked


def _rates(observer: Observer, window: Window, expected: Expected | None, ends: tuple[float, float]) -> dict[str, Any]:
    """Rates of tokens and FLOPs; without a scenario only those of tokens, as far as the job tells."""
    devices, seconds = observer.devices, window.step_time_s
    tokens = tokens_of(window, observer.expected, devices, observer.detector.sequence_length)
    if not tokens or not seconds:
        return {}
    interval = {"step_time_s": list(ends), "tokens_per_s": [tokens / ends[1], tokens / ends[0]]}
    if expected is None:
        rates = {"tokens_per_s": tokens / seconds, "tokens_per_s_per_device": tokens / seconds / (devices or 1)}
        return {"interval": interval, **rates}
    return {
        "interval": interval,
        **measured_rates(expected, seconds, tokens=tokens, devices=devices),
        "model_flops": expected.model_flops,
        "hardware_flops": expected.hardware_flops,
        "evidence": {"step": "measured"},
    }


def _expected_now(observer: Observer) -> Expected | None:
    """The prediction of the scenario as it is at the end."""
    expected, detector = observer.expected, observer.detector
    if expected is None:
        return None
    scenario = expected.scenario
    now = scenario_now(scenario, devices=detector.devices, sequence_length=detector.sequence_length)
    return expected if now is scenario else expected_of(now)


def status_of(error: BaseException | None) -> tuple[str, str]:
    """Return the status of a run that ended with an error of the job, or without one, and its reason."""
    if error is None:
        return "ok", ""
    said = " ".join(str(error).split())
    reason = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if isinstance(error, KeyboardInterrupt | SystemExit):
        return "interrupted", reason
    return ("out_of_memory" if "out of memory" in said.lower() else "crashed"), reason


def environment() -> dict[str, Any]:
    """Return what is known of where the job ran, without asking the machine for long."""
    torch = sys.modules.get("torch")
    named = ("torch", "transformers", "accelerate", "peft", "deepspeed")
    libraries = {name: str(getattr(sys.modules.get(name), "__version__", "")) for name in named}
    found: dict[str, Any] = {
        "host": platform.node(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "libraries": {name: version for name, version in libraries.items() if version},
        "processes": readings.world_size() or 1,
    }
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and cuda.is_initialized():
        properties = [cuda.get_device_properties(at) for at in range(cuda.device_count())]
        found["gpus"] = [{"name": each.name, "memory_bytes": float(each.total_memory)} for each in properties]
    return found
