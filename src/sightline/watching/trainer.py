"""The Trainer of transformers, watched: a callback, and a scenario derived from its model and its arguments."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sightline.errors import InputError, missing_extra
from sightline.watching import machine
from sightline.watching.watch import Watch, watch

if TYPE_CHECKING:
    from sightline.scenario import Scenario

    TrainerCallback: type["WatchCallback"]


def __getattr__(name: str) -> Any:
    """Make the class when it is first asked for: importing transformers takes seconds."""
    if name != "TrainerCallback":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    globals()[name] = found = _made()
    return found


def callback_of(watched: Watch) -> "WatchCallback":
    """Return the callback of a watch.

    Raises:
        WorkError: transformers is not installed.
    """
    found: WatchCallback = __getattr__("TrainerCallback")(watched)
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
            error = RuntimeError("the training before did not come to its end")
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
    devices = machine.world_size() or 1
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

    from sightline.loading.clusters.driver_names import catalog_name
    from sightline.loading.clusters.this_machine import THIS_MACHINE

    if not torch.cuda.is_available():
        return THIS_MACHINE
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    found = catalog_name({"name": properties.name, "memory_bytes": float(properties.total_memory)})
    if found is None:
        raise InputError(f"cluster: the catalog has no device called '{properties.name}'")
    return found
