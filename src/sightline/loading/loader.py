"""Sources into scenarios: overrides, sweeps, and all mistakes of a file in one error."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sightline.errors import InputError, nearest
from sightline.loading.input.checks import Complaints
from sightline.loading.input.dotted_keys import check_sweep, key_value, swept, with_value
from sightline.loading.input.sources import Document, Source, read_source, value_of
from sightline.loading.plan import TASKS
from sightline.loading.training import scenario_from_mapping
from sightline.quantities import show
from sightline.scenario import Scenario

if TYPE_CHECKING:
    from sightline.scenario import GenerationScenario, OperatorScenario

Asked: TypeAlias = "Scenario | OperatorScenario | GenerationScenario"
"""What a scenario file may ask for."""

Overrides = Mapping[str, Any] | Sequence[str]
"""Values by dotted key, or ``key=value`` texts as ``--set`` takes them."""
Sweeps = Mapping[str, Sequence[Any]] | Sequence[str]
"""Lists of values by dotted key, or ``key=1,2,3`` texts as ``--sweep`` takes them."""
_MEANT = {**dict.fromkeys(("serve", "serving", "infer", "inference"), "generate"), "train": "pretrain"}
"""Words for tasks that others use."""


def load(source: object, overrides: Overrides = (), sweeps: Sweeps = ()) -> "Asked | list[Asked]":
    """Return the scenario of a source, or the list of them when it is a list, a table, several documents or a sweep.

    ``source`` is a path, ``-`` for standard input, a text of YAML, JSON or CSV, an open file, a mapping or a list of
    mappings. Raise `InputError` with every mistake in it.
    """
    set_values, sweep_values = _overrides(overrides), _sweeps(sweeps)
    read = read_source(source)
    scenarios, is_sweep = _scenarios(read, set_values, sweep_values)
    return scenarios[0] if read.single and not is_sweep else scenarios


def load_all(sources: Iterable[object], overrides: Overrides = (), sweeps: Sweeps = ()) -> list[Asked]:
    """Return the scenarios of all sources in order; raise `InputError` with every mistake in any of them."""
    set_values, sweep_values = _overrides(overrides), _sweeps(sweeps)
    scenarios: list[Asked] = []
    problems: list[str] = []
    for source in sources:
        try:
            scenarios += _scenarios(read_source(source), set_values, sweep_values)[0]
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return scenarios


def _scenarios(
    source: Source, overrides: Mapping[str, Any], sweeps: Mapping[str, list[Any]]
) -> tuple[list[Asked], bool]:
    """The scenarios of a source, and whether a sweep made them."""
    scenarios: list[Asked] = []
    problems: dict[str, None] = {}
    is_sweep = False
    for document in source.documents:
        prefix = f"{document.place}: " if document.place else ""
        try:
            mappings, has_sweep = _expanded(document, overrides, sweeps)
            is_sweep |= has_sweep
            for mapping in mappings:
                try:
                    scenarios.append(_scenario(mapping, source.folder))
                except InputError as error:
                    problems |= dict.fromkeys(prefix + p for p in error.problems)
        except InputError as error:
            problems |= dict.fromkeys(prefix + p for p in error.problems)
    if problems:
        raise InputError(list(problems))
    return scenarios, is_sweep


def _scenario(mapping: Mapping[str, Any], folder: Path) -> Asked:
    """The scenario of a mapping; raise `InputError` with its mistakes, keys in a wrong part first."""
    try:
        return _read(mapping, folder)
    except InputError:
        from sightline.loading.misplaced import moved

        complaints = Complaints()
        meant = moved(mapping, complaints)
        if not complaints.problems:
            raise
        complaints.note(_read, meant, folder)
        raise InputError(complaints.problems) from None


def _read(mapping: Mapping[str, Any], folder: Path) -> Asked:
    """The scenario of a mapping, read by its task's reader."""
    workload = mapping.get("workload")
    # Each task's reader is imported when asked for, so that a command starts with one task's alone.
    match workload.get("task") if isinstance(workload, Mapping) else None:
        case "operator":
            from sightline.loading.operations import operation_from_mapping

            return operation_from_mapping(mapping)
        case "generate":
            from sightline.loading.generation import generation_from_mapping

            return generation_from_mapping(mapping, folder)
        case None | "pretrain" | "finetune":
            return scenario_from_mapping(mapping, folder)
        case other:
            # Nothing else can be said of a scenario whose task is unknown.
            meant = _MEANT.get(other) if isinstance(other, str) else None
            near = f" - did you mean '{meant}'?" if meant else nearest(other, TASKS)
            raise InputError(f"workload.task is {show(other)}; allowed: {', '.join(TASKS)}{near}")


def _expanded(
    document: Document, overrides: Mapping[str, Any], sweeps: Mapping[str, list[Any]]
) -> tuple[Iterable[Mapping[str, Any]], bool]:
    """The mappings one document stands for after overrides and sweeps, and whether there was a sweep."""
    if not isinstance(document.mapping, Mapping):
        raise InputError(
            f"a scenario is {show(document.mapping)}; allowed: a mapping with model, cluster, workload, plan"
        )
    mapping = {k: v for k, v in document.mapping.items() if k != "sweep"}
    sweep = check_sweep(document.mapping.get("sweep") or {}) | dict(sweeps)
    for key, value in overrides.items():
        if key == "sweep" or key.startswith("sweep."):
            sweep |= check_sweep(value if key == "sweep" else {key.removeprefix("sweep."): value})
            continue
        # Setting a key that the file sweeps fixes it.
        sweep = {k: v for k, v in sweep.items() if k != key or k in sweeps}
        mapping = with_value(mapping, key, value)
    return (swept(mapping, sweep), True) if sweep else ([mapping], False)


def _overrides(overrides: Overrides) -> dict[str, Any]:
    if isinstance(overrides, Mapping):
        keys: Iterable[object] = overrides
        wrong = [key for key in keys if not isinstance(key, str)]
        if wrong:
            raise InputError([f"override {show(key)} is not a dotted key, such as plan.micro_batch" for key in wrong])
        return dict(overrides)
    pairs = [key_value(argument) for argument in _arguments(overrides)]
    return {key: _argument(key, value) for key, value in pairs}


def _sweeps(sweeps: Sweeps) -> dict[str, list[Any]]:
    if isinstance(sweeps, Mapping):
        return check_sweep({k: list(v) if isinstance(v, tuple | range) else v for k, v in sweeps.items()})
    pairs = [key_value(argument) for argument in _arguments(sweeps)]
    return check_sweep({key: _listed(key, value) for key, value in pairs})


def _arguments(given: Overrides | Sweeps) -> Iterable[Any]:
    """Arguments of the form key=value; a single one needs no list around it."""
    return [given] if isinstance(given, str) else given


def _listed(key: str, text: str) -> list[Any]:
    """The values of ``1,2,3`` or ``[1, 2, 3]``; commas inside brackets separate nothing here."""
    value = _argument(key, text if text.startswith("[") else f"[{text}]")
    return value if isinstance(value, list) else [value]


def _argument(key: str, text: str) -> Any:
    try:
        return value_of(key, text)
    except InputError as error:
        raise InputError([f"{key}={text}: {problem}" for problem in error.problems]) from None
