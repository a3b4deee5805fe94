"""Watch a training job: ``sl.watch`` around the loop of any job, or a callback for the Trainer of transformers."""

import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from sightline.errors import InputError, missing_extra
from sightline.watching import readings
from sightline.watching.readings import Quiet, Reported

if TYPE_CHECKING:
    from sightline.scenario import Scenario
    from sightline.watching.expected import Expected
    from sightline.watching.observer import Observer

    TrainerCallback: type["WatchCallback"]

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
        if scenario is not None and readings.rank() == 0:
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
        if self._observer is None and readings.rank() == 0:
            with self._quiet("starting the watch"):
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
            reported = Reported(self._end_s, self._wait_s, tokens, sequence_length, loss, self._parts, readings.mark())
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
        found: WatchCallback = __getattr__("TrainerCallback")(self)
        return found

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
        self._observer.start(self._end_s, readings.mark())
        _OPEN.add(self)
        self._observer.screen.begin(self.id)

    def _end(self, observer: "Observer", error: BaseException | None) -> None:
        from sightline.watching.observer import finish

        _OPEN.discard(self)
        has_ended = observer.stop(wait=error is None)
        if observer.stream is not None and has_ended:
            self._id = observer.stream.id
            finish(observer, self.name, error)
            if isinstance(error, KeyboardInterrupt):
                observer.screen.say(
                    f"interrupted; the steps are stored: see them with `sightline runs show {self._id}`"
                )


_OPEN: "weakref.WeakSet[Watch]" = weakref.WeakSet()


def _after_fork() -> None:
    """Do nothing more in a process that the job has forked."""
    for one in list(_OPEN):
        one._observer = None  # noqa: SLF001 - of this module
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


def __getattr__(name: str) -> Any:
    """Make the class when it is first asked for: importing transformers takes seconds."""
    if name != "TrainerCallback":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    globals()[name] = found = _made()
    return found


def _made() -> "type[WatchCallback]":
    try:
        import transformers
    except ImportError as error:
        raise missing_extra("the Trainer's callback", "measure") from error

    bases = (WatchCallback, transformers.TrainerCallback)
    return type("TrainerCallback", bases, {"__module__": __name__, "__doc__": WatchCallback.__doc__})


class WatchCallback:
    """Watches what a Trainer trains: ``Trainer(..., callbacks=[TrainerCallback("scenario.yaml")])``.

    Takes what `sightline.watch` takes, or a watch. Without a scenario, it derives one from the model's configuration,
    the arguments, the processes and the device.
    """

    def __init__(self, scenario: object = None, **options: Any) -> None:
        self.watch = scenario if isinstance(scenario, Watch) else watch(scenario, **options)
        self._batches, self._owns, self._loss = _Batches(), False, None  # type: _Batches, bool, float | None
        self._length = 0

    def on_train_begin(self, args: Any, *_: Any, model: Any = None, train_dataloader: Any = None, **__: Any) -> None:
        """Begin the watch, if nobody has."""
        if self._owns:
            # The Trainer tells nobody when a training ends in an error.
            error = RuntimeError("the previous training did not finish")
            self.watch.__exit__(RuntimeError, error, None)
        if not getattr(args, "disable_tqdm", True):
            self.watch.without_line()
        if not self.watch.is_open:
            self.watch.__enter__()
            self._owns = True
        with suppress(Exception):
            self._batches.follow(model if self.watch.is_open and not _is_compiled(model, args) else None)
        with suppress(Exception):
            self._length = len(train_dataloader.dataset[0]["input_ids"]) if self.watch.is_open else 0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Note that the input is there."""
        self.watch.waited()

    def on_step_end(self, args: Any, *_: Any, model: Any = None, **__: Any) -> None:
        """Report the step, and derive the scenario from the first one."""
        tokens, length = self._batches.take()
        self.watch.step(tokens=tokens, sequence_length=length, loss=self._loss)
        self._loss = None
        length = length or self._length
        if length and self.watch.is_open and self.watch.scenario is None and not self._batches.told:
            self._batches.told = True
            self.watch.derive(lambda: derived(model, args, length))

    def on_log(self, *_: Any, logs: Any = None, **__: Any) -> None:
        """Keep the loss, which the Trainer has read from the device already."""
        self._loss = (logs or {}).get("loss")

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """End the watch, if it began here."""
        with suppress(Exception):
            self._batches.leave()
        if self._owns:
            self._owns = False
            self.watch.__exit__(None, None, None)


def _is_compiled(model: Any, args: Any) -> bool:
    """Whether a compiler traces what is called in the model: a count that changes would make it compile again."""
    return bool(getattr(args, "torch_compile", False)) or getattr(model, "_compiled_call_impl", None) is not None


class _Batches:
    """Shapes of the batches that a model is given in training; nothing is read from the device."""

    def __init__(self) -> None:
        self.tokens, self.length, self.told = 0, 0, False
        self._handle: Any = None

    def follow(self, model: Any) -> None:
        """Look at what a model is called with."""
        if model is not None and self._handle is None:
            self._handle = model.register_forward_pre_hook(self._seen, with_kwargs=True)

    def leave(self) -> None:
        """Look no more."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def take(self) -> tuple[int | None, int | None]:
        """Return the tokens and the longest row since the last call; None where none were seen."""
        tokens, length = self.tokens or None, self.length or None
        self.tokens = self.length = 0
        return tokens, length

    def _seen(self, module: Any, positional: Any, named: Mapping[str, Any]) -> None:
        ids = named.get("input_ids", named.get("inputs_embeds"))
        ids = positional[0] if ids is None and positional else ids
        shape: Sequence[int] = getattr(ids, "shape", ())
        if module.training and len(shape) >= 2:
            self.tokens += shape[0] * shape[1]
            self.length = max(self.length, shape[1])


def derived(model: Any, args: Any, sequence_length: int) -> "Scenario":
    """Return the scenario of a Trainer's model and arguments on the devices at hand.

    Raises:
        InputError: Something of it is nothing that a scenario can say.
    """
    from sightline.launching.registry import read

    inner = getattr(model, "module", model)
    stated = dict(read(args.to_json_string()).scenario)
    devices = readings.world_size() or 1
    batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * devices
    plan = {**stated["plan"], **_sharding(args), **_of_model(inner)}
    if args.optim == "adamw_torch" and plan.get("optimizer") is None:
        plan["optimizer"] = "adamw"
    return _loaded({
        "name": getattr(args, "run_name", None) or f"Trainer, {inner.config.model_type}",
        "model": _configuration(inner.config),
        "cluster": f"{devices}x {_device()}",
        "workload": {**stated["workload"], "sequence_length": sequence_length, "global_batch": batch},
        "plan": {**plan, "micro_batch": args.per_device_train_batch_size},
    })  # fmt: skip


def _loaded(mapping: dict[str, Any]) -> "Scenario":
    """The scenario, without keys of the model's configuration that say nothing about its layers."""
    from sightline.watching.expected import scenario_of

    try:
        return scenario_of(mapping)
    except InputError as error:
        unknown = [p.split()[0] for p in error.problems if p.startswith("model.") and "not a known key" in p]
        if not unknown:
            raise
        model = {key: value for key, value in mapping["model"].items() if f"model.{key}" not in unknown}
        return scenario_of({**mapping, "model": model})


def _configuration(config: Any) -> dict[str, Any]:
    found = {"model_type": config.model_type, **config.to_diff_dict()}
    return {key: value for key, value in found.items() if value is not None}


def _of_model(model: Any) -> dict[str, Any]:
    """What the model says of the plan: its attention, and adapters of peft."""
    eager = getattr(model.config, "_attn_implementation", "") == "eager"
    plan: dict[str, Any] = {"attention": "eager" if eager else "flash"}
    for adapter in (getattr(model, "peft_config", None) or {}).values():
        if str(getattr(adapter, "peft_type", "")).endswith("LORA"):
            plan["adapter"] = {"kind": "lora", "rank": adapter.r}
    return plan


def _sharding(args: Any) -> dict[str, Any]:
    """What DeepSpeed's configuration says of the plan, or that of fully sharded data parallelism."""
    import json
    from pathlib import Path

    from sightline.launching.registry import read

    stated = getattr(args, "deepspeed", None)
    if stated:
        text = json.dumps(stated) if isinstance(stated, Mapping) else Path(stated).read_text(encoding="utf-8")
        of = read(text).scenario["plan"]
        return {key: of[key] for key in ("framework", "zero_stage", "offload") if key in of}
    return {"framework": "fsdp", "zero_stage": 3} if getattr(args, "fsdp", None) else {}


def _device() -> str:
    """The catalog's name of the GPU that PyTorch has, else this machine's processor."""
    import torch

    from sightline.loading.clusters.cluster import catalog_name
    from sightline.loading.clusters.this_machine import THIS_MACHINE

    if not torch.cuda.is_available():
        return THIS_MACHINE
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    found = catalog_name({"name": properties.name, "memory_bytes": float(properties.total_memory)})
    if found is None:
        raise InputError(f"cluster: unknown device '{properties.name}'")
    return found
