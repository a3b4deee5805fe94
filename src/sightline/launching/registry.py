"""Which module writes the launch of which framework, and which one reads a configuration back."""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sightline.errors import InputError
from sightline.launching.launch import BLOCKING, Launch, Reading

if TYPE_CHECKING:
    from sightline.launching.source import Source
    from sightline.scenario import GenerationScenario, Scenario, ServingScenario

WRITERS: Final[Mapping[str, str]] = {
    "megatron": "training.megatron",
    "deepspeed": "training.deepspeed",
    "fsdp": "training.accelerate",
    "transformers": "training.transformers",
    "torchtitan": "training.torchtitan",
    "torchtune": "training.stack_launches",
    "maxtext": "training.stack_launches",
}
"""By framework of training: the module whose ``write`` takes a scenario and returns its `Launch`.

``write`` raises `InputError` with a sentence for everything of the plan that its framework cannot launch."""
ENGINE_WRITERS: Final[Mapping[str, str]] = {
    "vllm": "engines.vllm",
    "sglang": "engines.sglang",
    "tensorrt-llm": "engines.tensorrt_llm",
    "tgi": "engines.tgi",
    "lightllm": "engines.lightllm",
    "llama.cpp": "engines.llama_cpp",
    "transformers": "engines.transformers_serve",
}
"""The same by engine of generation."""
READERS: Final[Mapping[str, str]] = {
    "training.stacks": "",
    "training.accelerate": "accelerate",
    "training.deepspeed": "deepspeed",
    "training.megatron": "megatron",
    "training.torchtitan": "torchtitan",
    "training.transformers": "trainer",
    **{module: engine for engine, module in ENGINE_WRITERS.items()},
}
"""Modules that read back, asked in this order, with the list of the keys that they know: ``claims`` says whether what
was given is of the framework, ``read`` returns its `Reading`. DeepSpeed may stand in a file of accelerate, which
therefore comes first. Tools of ``stacks.yaml`` have their keys there."""
READ: Final = (
    "a YAML or command of LLaMA-Factory, axolotl, ms-swift, torchtune, MaxText, NeMo or Megatron-Bridge, a DeepSpeed "
    "JSON, a Megatron-LM command, an accelerate YAML, a torchtitan TOML, arguments of the transformers Trainer, a "
    "command of vLLM, SGLang, TensorRT-LLM, TGI, LightLLM, llama.cpp or transformers serve"
)
"""What can be read back, for messages."""


def write(scenario: "Scenario | GenerationScenario | ServingScenario", tool: str | None = None) -> Launch:
    """Return the command and the files that launch a scenario in its framework; of a load, what serves it.

    ``tool`` names a tool built on the framework, such as llama-factory.

    Raises:
        InputError: The framework is none that is launched, or does not offer something of the plan; a sentence each.
    """
    from sightline.scenario import ServingScenario

    if tool is not None:
        launched: Launch = _module("training.stack_launches").write(scenario, tool)
        return _with_variables(launched, scenario)
    if isinstance(scenario, ServingScenario):
        from sightline.launching.engines.requests import as_generation

        scenario = as_generation(scenario)
    name, writers = _writers(scenario)
    if said := _unwritten(scenario):
        raise InputError(said)
    launch: Launch = _module(writers[name]).write(scenario)
    return _with_variables(launch, scenario)


def _with_variables(launch: Launch, scenario: Any) -> Launch:
    """The launch with the variable that lets the host wait for every kernel, where the plan does."""
    is_blocking = getattr(scenario.plan, "launch_blocking", False)
    return replace(launch, command=f"export {BLOCKING}=1\n{launch.command}") if is_blocking else launch


def obstacles(scenario: "Scenario | GenerationScenario | ServingScenario") -> tuple[str, ...]:
    """Return what keeps a scenario from being launched, a sentence each; nothing where `write` takes it."""
    rules = _module("training.rules" if _writers(scenario)[1] is WRITERS else "engines.rules")
    found = (*filter(None, (_unwritten(scenario),)), *rules.refusals(scenario))
    name, writers = _writers(scenario)
    if not found and writers[name] == "training.stack_launches":
        # Tables say what is launched: what is written is read back.
        try:
            write(scenario)
        except InputError as error:
            return tuple(error.problems)
    return found


def _writers(scenario: Any) -> tuple[str, Mapping[str, str]]:
    """The framework or engine of a scenario, and what is written beside it."""
    plan = scenario.plan
    return (plan.engine.name, ENGINE_WRITERS) if hasattr(plan, "engine") else (plan.framework.name, WRITERS)


def _unwritten(scenario: Any) -> str:
    """Why no launch of a scenario is written; empty where one is."""
    (name, writers), preference = _writers(scenario), getattr(scenario.workload, "preference", "none")
    if getattr(getattr(scenario.plan, "framework", None), "is_like", False):
        return f"plan.framework is like {name}: no launch is written for a framework that is only like another"
    if name not in writers:
        return f"plan.framework is {name}, for which no launch is written; written: {', '.join(writers)}"
    use = "use --with llama-factory, axolotl or ms-swift"
    return "" if preference == "none" else f"workload.preference is {preference}, which tools alone train; {use}"


def read(source: str | Path) -> Reading:
    """Return what a framework's own configuration file, script or command line says as a scenario.

    ``source`` is a path or a text.

    Raises:
        InputError: It cannot be read, or is of no framework that is read back.
    """
    from sightline.launching.readers import reader
    from sightline.launching.source import source_of
    from sightline.launching.training.stacks import not_read_tool, stack_of

    try:
        found = source_of(source)
    except InputError as error:
        raise InputError(_other(source) or error.problems) from None
    if tool := not_read_tool(found):
        raise InputError(f"{found.place} is of {tool}, which is not read; readable: {READ}")
    name = next((name for name in READERS if _module(name).claims(found)), None)
    if name is None:
        raise InputError(_other(source) or _unreadable(found))
    engines = list(ENGINE_WRITERS.values()) if name in ENGINE_WRITERS.values() else []
    tools = [reader(READERS[engine]).tool for engine in engines if _module(engine).claims(found)]
    if len(tools) > 1:
        raise InputError(f"{found.place} starts servers of several engines, {' and '.join(tools)}; a scenario has one")
    reading: Reading = _with_blocking(_module(name).read(found), found, is_served=name in ENGINE_WRITERS.values())
    known = stack_of(found) or reader(READERS[name])
    unread = {"unread": list(reading.unread)} if reading.unread else {}
    return replace(
        reading,
        scenario={**reading.scenario, **unread},
        read_as=f"parsed {found.place} as {found.form} for {known.tool} ({known.release})",
    )


def _with_blocking(reading: Reading, found: "Source", *, is_served: bool) -> Reading:
    """A reading of a script that lets the host wait for every kernel; no key of a server's scenario says that."""
    from sightline.launching.options import not_read
    from sightline.launching.shell import variables_of

    if not found.words or (f"{BLOCKING}=1" not in found.words and variables_of(found.text).get(BLOCKING) != "1"):
        return reading
    if is_served:
        said = [*not_read([BLOCKING], ()), *reading.without_counterpart]
        return replace(reading, unread=[*reading.unread, BLOCKING], without_counterpart=said)
    plan = {**reading.scenario.get("plan", {}), "launch_blocking": True}
    return replace(reading, scenario={**reading.scenario, "plan": plan})


def _other(source: str | Path) -> str:
    """What a file is that is no launch; empty for a text, and where nothing is known of it."""
    from sightline.loading.foreign import of_file

    return "" if "\n" in str(source) else of_file(Path(source), "a launch")


def _unreadable(found: "Source") -> str:
    """Why nothing can be read of what was given."""
    if len({"model", "cluster", "workload", "plan"} & found.mapping.keys()) > 1:
        return f"{found.place} is a scenario, not a launch: use sightline predict"
    script = next((word for word in found.words if word.endswith(".py")), None)
    if script is not None:
        return f"{found.place} starts {script}, but does not say how it trains; read its configuration file instead"
    return f"{found.place} is of no framework that can be read back; readable: {READ}"


def _module(name: str) -> Any:
    return import_module(f"sightline.launching.{name}")
