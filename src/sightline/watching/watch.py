"""``sl.watch``: a context manager around the loop of any training job."""

import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sightline.errors import InputError
from sightline.watching import machine
from sightline.watching.quiet import Quiet
from sightline.watching.steps import Reported

if TYPE_CHECKING:
    from sightline.scenario import Scenario
    from sightline.watching.expected import Expected
    from sightline.watching.observer import Observer
    from sightline.watching.trainer import WatchCallback

Batch = TypeVar("Batch")


class Watch:
    """A job that is watched, from ``with`` on to the end of its block.

    Nothing in here raises but for what was asked: whatever goes wrong is said once in the log ``sightline.watching``,
    and the job goes on. Only rank 0 shows and writes; on other ranks, and in processes that the job forks, every
    method returns at once.
    """

    def __init__(
        self,
        scenario: "Scenario | None",
        *,
        store: str | None,
        show: bool,
        replan: bool,
        name: str,
        every_s: float,
        devices: int | None,
    ) -> None:
        self.scenario, self.name = scenario, name
        self._store, self._show, self._replan = store, show, replan
        self._every_s, self._devices = every_s, devices
        self._quiet = Quiet()
        self._observer: Observer | None = None
        self._wait_s = 0.0
        self._parts: dict[str, float] | None = None
        self._end_s = 0.0
        self._in_place = True
        self._expected: Expected | None = None
        if scenario is not None and machine.rank() == 0:
            from sightline.watching.expected import expected_of

            self._expected = expected_of(scenario)

    @property
    def is_open(self) -> bool:
        """Whether steps are looked at now, by this process."""
        return self._observer is not None

    @property
    def id(self) -> str:
        """Of the run that the store keeps of it; empty on other ranks and where nothing can be written."""
        stream = None if self._observer is None else self._observer.stream
        return self._id if stream is None else stream.id

    _id = ""

    def __enter__(self) -> Self:
        """Begin to watch: the first step is counted from here on."""
        if self._observer is None and machine.rank() == 0:
            with self._quiet("beginning to watch"):
                self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the watch and store it as a run; an error of the job passes, and is the run's reason."""
        observer, self._observer = self._observer, None
        if observer is not None:
            with self._quiet("ending the watch"):
                self._end(observer, error)

    def step(self, *, tokens: Any = None, sequence_length: Any = None, loss: Any = None) -> None:
        """Say that an optimizer step has ended.

        Takes some microseconds: figures are read elsewhere, tensors when their device has reached them.

        Args:
            tokens: Tokens that this process worked on in the step, padding included.
            sequence_length: Tokens of a sample of the step.
            loss: Shown as it is.
        """
        observer = self._observer
        if observer is None:
            return
        try:
            self._end_s = perf_counter()
            if loss is not None and hasattr(loss, "detach"):
                loss = loss.detach()
            reported = Reported(self._end_s, self._wait_s, tokens, sequence_length, loss, self._parts, machine.mark())
            observer.reported.append(reported)
            self._wait_s, self._parts = 0.0, None
        except Exception:
            with self._quiet("reading a step"):
                raise

    def waited(self) -> None:
        """Say that the input of the next step is there: what has passed since the step before was waiting for it."""
        if self._observer is not None and self._end_s:
            self._wait_s = perf_counter() - self._end_s

    def inputs(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Go through batches and time how long the job waits for each."""
        found = iter(batches)
        while True:
            began = perf_counter()
            try:
                batch = next(found)
            except StopIteration:
                return
            self._wait_s += perf_counter() - began
            yield batch

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time a named part of the step, such as ``all_reduce``, by the clock of the host."""
        began = perf_counter()
        try:
            yield
        finally:
            parts = self._parts = self._parts or {}
            parts[name] = parts.get(name, 0.0) + perf_counter() - began

    def callback(self) -> "WatchCallback":
        """Return a callback for the Trainer of transformers, which begins and ends a watch that has not begun.

        Raises:
            WorkError: transformers is not installed.
        """
        from sightline.watching.trainer import callback_of

        return callback_of(self)

    def derive(self, scenario: "Callable[[], Scenario]") -> None:
        """Find the scenario after the beginning, and hold the job against its prediction from then on.

        Both happen beside the job. Where there is none, only what is measured is told, and why.
        """
        if self._observer is not None:
            self._observer.derive(scenario)

    def without_line(self) -> None:
        """Leave the terminal's last line to the progress bar of somebody else."""
        self._in_place = False

    def _begin(self) -> None:
        from sightline.watching.observer import Observer
        from sightline.watching.screen import Screen
        from sightline.watching.stream import open_stream

        self._observer = Observer(
            expected=self._expected,
            open_stream=lambda: open_stream(self._store, self.name, self.scenario),
            screen=Screen(show=self._show, in_place=self._in_place),
            quiet=self._quiet,
            replan=self._replan,
            every_s=self._every_s,
            devices=self._devices,
        )
        self._end_s = perf_counter()
        self._observer.start(self._end_s, machine.mark())
        _OPEN.add(self)

    def _end(self, observer: "Observer", error: BaseException | None) -> None:
        from sightline.watching.outcome import finish

        _OPEN.discard(self)
        has_ended = observer.stop(wait=error is None)
        if observer.stream is not None and has_ended:
            self._id = observer.stream.id
            finish(observer, self.name, error)

    def _forget(self) -> None:
        """Do nothing more in a process that the job has forked."""
        self._observer = None


_OPEN: "weakref.WeakSet[Watch]" = weakref.WeakSet()


def _after_fork() -> None:
    for one in list(_OPEN):
        one._forget()  # noqa: SLF001 - of this module
    _OPEN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def watch(
    scenario: object = None,
    *,
    store: str | None = None,
    show: bool = True,
    replan: bool = True,
    name: str = "",
    every_s: float = 1.0,
    devices: int | None = None,
) -> Watch:
    """Watch a training job: its step time, MFU, memory, and the gap to its prediction; say when it departs, and why.

        with sl.watch("scenario.yaml") as watch:
            for batch in watch.inputs(loader):
                train(batch)
                watch.step(tokens=batch.numel(), loss=loss)

    ``sl.watch(...).callback()`` is the same for the Trainer of transformers.

    Args:
        scenario: What runs, as `sightline.load` takes it, or a `Scenario`; None watches without a prediction. The
            Trainer's callback then derives one from the model and the arguments.
        store: The store of runs, a folder or URL; default: ``SIGHTLINE_RUNS``, else the user's own.
        show: Show the figures on the terminal, through standard error.
        replan: On a departure, search for a better plan, in a process of its own with the lowest priority.
        name: Of the run; default: the scenario's.
        every_s: Seconds between two looks at the steps.
        devices: Devices that work together, where PyTorch's group of processes and ``WORLD_SIZE`` don't say.

    Raises:
        InputError: The scenario cannot be read or predicted, or is not one of training.
    """
    if not every_s > 0:
        raise InputError(f"every_s is {every_s}; allowed: seconds above 0")
    if devices is not None and devices < 1:
        raise InputError(f"devices is {devices}; allowed: a whole number of 1 or more")
    asked = None
    if scenario is not None:
        from sightline.watching.expected import scenario_of

        asked = scenario_of(scenario)
    return Watch(asked, store=store, show=show, replan=replan, name=name, every_s=every_s, devices=devices)
