"""The fields of forms, made of the declarations that scenario files are read by."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from sightline import catalog
from sightline.loading import to_mapping
from sightline.loading.generation import GENERATE as GENERATION
from sightline.loading.plans import DTYPES, plan_keys
from sightline.loading.schema import schema
from sightline.loading.sources import as_text
from sightline.loading.training import WORKLOAD
from sightline.scenario.plan import OFFLOADABLE
from sightline.scenario.precision import QUANTIZATIONS
from sightline.validators import Kind, choice, flag, fraction

TRAINING: Final = ("pretrain", "finetune")
GENERATE: Final = ("generate",)
INFERENCE: Final = ("generate", "serve")

START: Final[Mapping[str, str]] = {
    "model": "llama-3-8b",
    "cluster": "8x h100-sxm-80gb",
    "workload.task": "pretrain",
    "workload.sequence_length": "8192",
    "workload.global_batch": "128",
    "plan.zero_stage": "1",
    "plan.tensor_parallel": "2",
}
"""What a page shows before anybody asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a form."""

    key: str
    """The dotted key, which is its name in the address."""
    label: str
    tasks: tuple[str, ...] = ()
    """Those that have it; empty for all."""
    when: str = ""
    """Another field and the values of it that leave room for this one, with | between them; empty for all."""
    choices: tuple[str, ...] = ()
    """What may be chosen; empty for text."""
    suggestions: tuple[str, ...] = ()
    """What text is likely."""
    entries: str = ""
    """The kind of catalog entries that it names, behind a count those of devices."""
    start: str = ""
    """What stands in it where nobody said anything and the task needs it."""
    empty: str = "auto"
    """What an empty field stands for."""
    is_number: bool = False
    step: float = 0.0
    """What one step adds to a number; 0 doubles and halves it."""
    needed: bool = False

    def has(self, task: str) -> bool:
        """Whether a task has the field."""
        return not self.tasks or task in self.tasks

    @property
    def help(self) -> str:
        """What the schema of scenario files says of the key; empty for an option of a view."""
        return _meaning(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Fields that stand together."""

    title: str
    fields: tuple[Field, ...]
    is_open: bool = True
    left_out: str = ""
    """What its empty fields are called, which are folded; empty where all are shown."""

    def count_empty(self, values: Mapping[str, str]) -> int:
        """Count the fields of the task that nobody filled in."""
        task = values.get("workload.task", "pretrain")
        return sum(field.has(task) and field.key not in values for field in self.fields)


@cache
def _meaning(key: str) -> str:
    part: Any = schema()["definitions"]["scenario"]
    for name in key.split("."):
        forms = [part]
        for form in forms:
            forms += form.get("anyOf", ())
        part = next((form["properties"][name] for form in forms if name in form.get("properties", ())), {})
    return str(part.get("description", ""))


def _label(key: str) -> str:
    words = key.rpartition(".")[2].replace("_", " ")
    return {"zero stage": "ZeRO stage", "dtype": "compute dtype", "cuda graphs": "CUDA graphs"}.get(words, words)


def _choices(kind: Any) -> tuple[str, ...]:
    """What a declaration allows, as typed; empty where that is no short list."""
    if isinstance(kind, choice):
        return tuple(map(str, kind.values))
    return ("true", "false") if kind is flag else ()


def _fields(prefix: str, declared: Mapping[str, Any], keys: str, tasks: tuple[str, ...]) -> Iterator[Field]:
    for key in keys.split():
        kind: Kind | Any = declared[key]
        choices = _choices(kind)
        suggestions = () if choices else _words().get(key, ())
        number = not choices and not suggestions
        named, label, step = f"{prefix}.{key}", _label(key), 0.05 if kind is fraction else 0.0
        yield Field(
            key=named, label=label, tasks=tasks, choices=choices, suggestions=suggestions, is_number=number, step=step
        )


@cache
def _words() -> Mapping[str, tuple[str, ...]]:
    """Likely texts of plan keys that take words, lists or mappings."""
    return {
        "dtype": tuple(DTYPES),
        "offload": ("none", *OFFLOADABLE),
        "recompute": ("none", "selective", "full"),
        "quantization": ("none", *QUANTIZATIONS),
        "adapter": ("none", "{kind: lora, rank: 16}", "{kind: qlora, rank: 16}"),
        "lengths": ("{distribution: lognormal, mean: 700, cv: 0.8}",),
        "speculative": ("{tokens: 4, acceptance: 0.7}",),
    }


@cache
def groups(tasks: tuple[str, ...] = (*TRAINING, *INFERENCE)) -> tuple[Group, ...]:
    """Return the fields of the scenarios of some tasks, in the order of a form."""
    found = (
        Group(title="What", fields=tuple(_what(tasks))),
        Group(title="Workload", fields=tuple(_workload())),
        Group(title="Plan", fields=tuple(_plan()), left_out="automatic"),
    )
    return tuple(replace(group, fields=_of_tasks(group.fields, tasks)) for group in found)


def _of_tasks(fields: Iterable[Field], tasks: tuple[str, ...]) -> tuple[Field, ...]:
    return tuple(field for field in fields if not field.tasks or set(field.tasks) & set(tasks))


def _what(tasks: tuple[str, ...]) -> Iterator[Field]:
    yield Field(key="model", label="model", entries="models", needed=True)
    yield Field(key="cluster", label="cluster", entries="clusters", needed=True)
    yield Field(key="workload.task", label="task", choices=tasks, needed=True)


_EMPTY: Final[Mapping[str, str]] = {
    "workload.total_tokens": "such as 2T",
    "workload.samples": "such as 50k",
    "workload.epochs": "1",
    "workload.lengths": "all full",
}
"""What empty fields of a workload stand for."""


def _workload() -> Iterator[Field]:
    start = {
        "sequence_length": "4096",
        "global_batch": "128",
        "batch": "16",
        "prompt_tokens": "1024",
        "output_tokens": "256",
    }
    found = (
        *_fields("workload", WORKLOAD, "sequence_length global_batch total_tokens", TRAINING),
        *_fields("workload", WORKLOAD, "samples epochs lengths packing", ("finetune",)),
        *_fields("workload", GENERATION, "batch prompt_tokens output_tokens", GENERATE),
    )
    for field in found:
        value = start.get(field.key.rpartition(".")[2], "")
        yield replace(field, start=value, needed=bool(value), empty=_EMPTY.get(field.key, "auto"))
    for key, value in {"count": "512", "prompt_tokens": "1024", "output_tokens": "256"}.items():
        named = f"workload.requests.{key}"
        yield Field(
            key=named, label=f"requests: {_label(key)}", tasks=("serve",), start=value, is_number=True, needed=True
        )
    yield Field(key="workload.trace", label="or their trace", tasks=("serve",), empty="none: open a file")
    yield Field(key="workload.arrival.rate", label="requests per second", tasks=("serve",), is_number=True)


def _plan() -> Iterator[Field]:
    declared = plan_keys()
    everywhere = (*TRAINING, *INFERENCE)
    yield from _frameworks()
    yield from _fields("plan", declared, "tensor_parallel pipeline_parallel data_parallel", everywhere)
    yield from _fields("plan", declared, "context_parallel", TRAINING)
    yield from _fields("plan", declared, "expert_parallel", everywhere)
    yield from _fields("plan", declared, "sequence_parallel zero_stage micro_batch schedule virtual_stages", TRAINING)
    yield from _fields("plan", declared, "recompute offload attention", TRAINING)
    yield from _fields("plan", declared, "dtype quantization", everywhere)
    yield from _fields("plan", declared, "adapter optimizer compile", TRAINING)
    yield from _fields("plan", declared, "max_batched_tokens max_sequences", ("serve",))
    yield from _fields("plan", declared, "chunked_prefill prefix_cache", ("serve",))
    yield from _fields("plan", declared, "memory_fraction cuda_graphs speculative", INFERENCE)


@cache
def imagined() -> Group:
    """Return the fields of a device that nobody sells: its node, and the kind and count of its memory stacks."""
    of = "cluster.device.technology"
    fields = (
        Field(key=f"{of}.node", label="process node", choices=tuple(catalog.names("nodes")), empty="as it is"),
        Field(key=f"{of}.memory", label="memory", choices=tuple(catalog.names("memories")), empty="as it is"),
        Field(key=f"{of}.stacks", label="memory stacks", is_number=True, empty="as it is"),
    )
    return Group(title="Imagined device", fields=fields, is_open=False)


def _frameworks() -> Iterator[Field]:
    """Frameworks train, engines generate: the key is the same."""
    for kind, tasks in {"frameworks": TRAINING, "engines": INFERENCE}.items():
        yield Field(key="plan.framework", label=kind.removesuffix("s"), tasks=tasks, choices=tuple(catalog.names(kind)))


def form_state(scenario: Any) -> Mapping[str, Any]:
    """Return for the script what a scenario's plan comes to, as texts by key, and what its framework offers."""
    resolved = {f"plan.{key}": as_text(value) for key, value in to_mapping(scenario).get("plan", {}).items()}
    plan = getattr(scenario, "plan", None)  # single operators have none
    made_by = getattr(plan, "framework", None) or getattr(plan, "engine", None)
    offers = {f"plan.{key}": list(map(as_text, values)) for key, values in getattr(made_by, "offers", {}).items()}
    return {"resolved": resolved, "offers": offers}


def completed(values: Mapping[str, str], groups: Iterable[Group]) -> dict[str, str]:
    """Return the fields of an address with those that it leaves out as a form of these groups would send them."""
    fields = [field for group in groups for field in group.fields]
    tasks = next((field.choices for field in fields if field.key == "workload.task"), ("",))
    task = values.get("workload.task", tasks[0])
    starts = {field.key: field.start for field in fields if field.needed and field.start and field.has(task)}
    return {"workload.task": task, **starts, **values}
