"""Turn sources into scenarios: overrides, sweeps, and all mistakes of a file in one error."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from sightline.errors import InputError, SightlineError, prefixed
from sightline.loading.checks import Complaints, check_sweep, dotted, key_value, meant, swept, with_value
from sightline.loading.foreign import read_known
from sightline.loading.parts import MEASURED, SCENARIO
from sightline.loading.plans import TASKS, plan_keys
from sightline.loading.sources import Document, Source, question_of, value_of
from sightline.loading.training import scenario_from_mapping
from sightline.progress import SILENT, Progress
from sightline.quantities import first_of, show
from sightline.scenario import Scenario
from sightline.scenario.rules.rulebook import Broken

if TYPE_CHECKING:
    from sightline.scenario import GenerationScenario, OperatorScenario, ServingScenario
    from sightline.scenario.rules.rulebook import Broken

Asked: TypeAlias = "Scenario | OperatorScenario | GenerationScenario | ServingScenario"
"""What a scenario file may ask for."""
Answer = TypeVar("Answer")
Cell: TypeAlias = Mapping[str, Any]
"""Values of the swept keys of one scenario, as they were typed; empty without a sweep."""

_FIGURE = re.compile(r"\d[\d,.]*")
_MOST_SENTENCES = 8
"""Sentences of impossible cells that are said one by one; of more, one is said for each rule."""


@dataclass(slots=True, kw_only=True, eq=False)
class Loaded:
    """The scenarios of all sources, in order."""

    scenarios: list[Asked] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    """Of each scenario, what a sweep gave it."""
    impossible: list[tuple[Broken, str]] = field(default_factory=list)
    """The first rule that each of the other cells breaks, and the sentence with the file before it."""
    skipped: list[tuple[Any, str]] = field(default_factory=list)
    """With ``skip_invalid``, the mappings that cannot be read, the scenarios that cannot be answered, and why."""
    is_list: bool = False
    """Whether a list was asked for: several files, a list, a table, several documents, or a sweep."""

    unmeasured: bool = False
    """Whether a file says what was measured, and a setting or sweep asks about something else."""

    def remarks(self) -> Iterator[str]:
        """Yield what is not compared, and how many cells of the sweep cannot be, and why."""
        if self.unmeasured:
            yield "measurements in the file are ignored because --set or --sweep changes the scenario"
        yield from self.not_possible()

    def not_possible(self) -> Iterator[str]:
        """Yield how many cells of the sweep cannot be, and why."""
        left_out = len(self.impossible)
        if not left_out:
            return
        counted = f"{left_out:,} of {left_out + len(self.scenarios):,} combinations are invalid"
        by_rule = _by_rule(self.impossible)
        if len(by_rule) == 1:
            said = next(iter(by_rule.values()))
            yield f"{counted}{': ' if len(set(said)) == 1 else ', for example: '}{said[0]}"
            return
        yield f"{counted}: {', '.join(f'{len(said):,} by {rule}' for rule, said in by_rule.items())}"
        yield from (f"{rule}: {said[0]}" for rule, said in by_rule.items())

    def answered_by(
        self, answer: Callable[[Asked], Answer], progress: Progress, what: str, *, skip_invalid: bool
    ) -> list[Answer]:
        """Return the answer to each scenario, as far as the work is not stopped.

        With ``skip_invalid``, scenarios that cannot be answered are taken out and counted instead of refused. Raise
        `SightlineError` as ``answer`` does, or where no scenario is left.
        """
        answers: list[Answer] = []
        for scenario in progress.over(list(self.scenarios), what):
            try:
                answers.append(answer(scenario))
            except SightlineError as error:
                if not skip_invalid:
                    raise
                del self.scenarios[len(answers)], self.cells[len(answers)]
                self.skipped.append((scenario, error.problems[0]))
        self.raise_if_nothing_is_possible()
        return answers

    def not_answered(self) -> Iterator[str]:
        """Yield how many scenarios were skipped, and why."""
        if self.skipped:
            yield f"{len(self.skipped):,} of {len(self.skipped) + len(self.scenarios):,} scenarios skipped"
            yield from (
                f"{count:,} x {reason}" for reason, count in by_reason(said for _, said in self.skipped).items()
            )

    def raise_if_nothing_is_possible(self) -> None:
        """Raise `InputError` where no scenario is left."""
        if self.scenarios or not (self.impossible or self.skipped):
            return
        if self.skipped:
            raise InputError(list(self.not_answered()))
        sentences = list(dict.fromkeys(said for _, said in self.impossible))
        if len(sentences) > _MOST_SENTENCES:
            by_rule = _by_rule(self.impossible)
            sentences = [f"{said[0]} (and {len(said) - 1:,} more)" for said in by_rule.values()]
        raise InputError(sentences)


def _by_rule(impossible: Sequence[tuple[Broken, str]]) -> dict[str, list[str]]:
    """Sentences by the rule that they word, the most frequent rule first."""
    found: dict[str, list[str]] = {}
    for broken, _ in impossible:
        found.setdefault(broken.rule.replace("_", " "), []).append(str(broken))
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def by_reason(sentences: Iterable[str]) -> dict[str, int]:
    """Return how many sentences say each thing, the most frequent first; those that differ in figures say the same."""
    found: dict[str, list[str]] = {}
    for said in sentences:
        found.setdefault(_FIGURE.sub("", said), []).append(said)
    return {said[0]: len(said) for said in sorted(found.values(), key=len, reverse=True)}


def is_impossible(error: InputError) -> bool:
    """Return whether every value of a refused scenario is right by itself, and only rules of plans are broken."""
    return bool(error.problems) and all(isinstance(problem, Broken) for problem in error.problems)


_SEARCHED = ("", "workload", "plan", "cluster")
"""Parts in which keys of others are looked for; the first is the top of the scenario."""


def moved(mapping: Mapping[str, Any], complaints: Complaints) -> Mapping[str, Any]:
    """Return the scenario with every misplaced key where it belongs, and note each of them.

    Whatever else is wrong can then be said of the scenario that was meant.
    """
    found = list(_misplaced(mapping))
    for part, key, home in found:
        at = part or "the top level of the scenario"
        complaints.add(f"{dotted(part, key)} is not a known key of {at}; use {home}.{key}")
    for part, key, home in found:
        mapping = _moved(mapping, part, key, home)
    return _without_other_tasks(mapping, complaints)


def _without_other_tasks(mapping: Mapping[str, Any], complaints: Complaints) -> Mapping[str, Any]:
    """Return the scenario without the keys of its workload that are another task's, and note each of them."""
    workload = mapping.get("workload")
    task = workload.get("task") if isinstance(workload, Mapping) else None
    keys = _workloads()
    if not isinstance(workload, Mapping) or not isinstance(task, str) or task not in keys:
        return mapping
    other = {key: [name for name in keys if key in keys[name]] for key in workload if key not in keys[task]}
    foreign = {key: names for key, names in other.items() if names}
    for key, names in foreign.items():
        complaints.add(f"workload.{key} applies to {', '.join(names)}; workload.task is {task}")
    return {**mapping, "workload": {key: value for key, value in workload.items() if key not in foreign}}


def _misplaced(mapping: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Each misplaced key with the part that it stands in and the part that it belongs to."""
    for part in _SEARCHED:
        stated = mapping.get(part) if part else mapping
        for key in stated if isinstance(stated, Mapping) else ():
            if isinstance(key, str) and key not in _homes()[part] and (home := _home(key)):
                yield part, key, home


def _home(key: str) -> str:
    return next((part for part, keys in _homes().items() if part and key in keys), "")


@cache
def _workloads() -> Mapping[str, frozenset[str]]:
    """The keys of ``workload`` by task."""
    from sightline.loading.generation import GENERATE
    from sightline.loading.operations import OPERATORS
    from sightline.loading.serving import SERVE
    from sightline.loading.training import WORKLOAD

    operators = chain.from_iterable(asked.keys for asked in OPERATORS.values())
    training = frozenset(WORKLOAD)
    return {
        "pretrain": training,
        "finetune": training,
        "generate": frozenset(GENERATE),
        "serve": frozenset(SERVE),
        "operator": frozenset(("task", "operator", *operators)),
    }


@cache
def _homes() -> Mapping[str, frozenset[str]]:
    """The keys of each part, those of all tasks together; a key of several parts belongs to the first."""
    from sightline.loading.clusters.cluster import CLUSTER
    from sightline.loading.models.family import DENSE

    return {
        "": frozenset((*SCENARIO, "sweep")),
        "plan": frozenset(plan_keys()),
        "workload": frozenset(chain.from_iterable(_workloads().values())),
        "cluster": frozenset(CLUSTER),
        "measured": frozenset(MEASURED),
        "model": frozenset(DENSE),
    }


def _moved(mapping: Mapping[str, Any], part: str, key: str, home: str) -> Mapping[str, Any]:
    """The scenario with a key moved to its home, or left out where the home states it or is no mapping."""
    stated = mapping[part] if part else mapping
    rest = {k: v for k, v in stated.items() if k != key}
    changed = {**mapping, part: rest} if part else rest
    there = changed.get(home)
    if isinstance(there, Mapping) or there is None:
        return {**changed, home: {key: stated[key], **(there or {})}}
    return changed


Overrides = Mapping[str, Any] | Sequence[str]
"""Values by dotted key, or ``key=value`` texts as ``--set`` takes them."""
Sweeps = Mapping[str, Sequence[Any]] | Sequence[str]
"""Lists of values by dotted key, or ``key=1,2,3`` texts as ``--sweep`` takes them."""
_NOT_ASKED = ("measured", "name", "sweep")
"""Keys of a scenario that ask for nothing by themselves."""


def load(
    source: object, overrides: Overrides = (), sweeps: Sweeps = (), *, possible_only: bool = False
) -> "Asked | list[Asked]":
    """Return the scenario of a source, or the list of them when it is a list, a table, several documents or a sweep.

    ``source`` is a path, ``-`` for standard input, a text of YAML, JSON or CSV, an open file, a mapping or a list of
    mappings. A result or a stored run stands for the scenario that it answers. Cells of a sweep that break a rule of
    plans are refused like any mistake, or with ``possible_only`` left out as long as some others remain. Raise
    `InputError` with every mistake in it.
    """
    loaded = read_all([source], overrides, sweeps, possible_only=possible_only)
    return loaded.scenarios if loaded.is_list else loaded.scenarios[0]


def load_all(sources: Iterable[object], overrides: Overrides = (), sweeps: Sweeps = ()) -> list[Asked]:
    """Return the scenarios of all sources in order; raise `InputError` with every mistake in any of them."""
    return read_all(sources, overrides, sweeps).scenarios


def read_all(
    sources: Iterable[object],
    overrides: Overrides = (),
    sweeps: Sweeps = (),
    *,
    possible_only: bool = False,
    skip_invalid: bool = False,
    progress: Progress = SILENT,
) -> Loaded:
    """Return the scenarios of all sources in order, with their values of swept keys.

    With ``possible_only``, cells of sweeps that break a rule of plans are counted instead of refused; with
    ``skip_invalid``, so is every scenario with a mistake. Raise `InputError` with every mistake in any source, or where
    no scenario is left.
    """
    set_values, sweep_values = read_overrides(overrides), _sweeps(sweeps)
    loaded, problems, asked = Loaded(), dict[str, None](), list(sources)
    loaded.is_list = len(asked) > 1
    for source in asked:
        try:
            read = read_known(source, skip_invalid=skip_invalid)
        except InputError as error:
            problems |= dict.fromkeys(error.problems)
            continue
        if foreign := _foreign(read):
            problems[foreign] = None
            continue
        loaded.is_list |= not read.single
        places: dict[str, list[str]] = {}
        for written in read.documents:
            document = replace(written, mapping=question_of(written.mapping))
            row = document.place if len(asked) > 1 else document.place.rpartition(", ")[2]
            if skip_invalid and not read.single and isinstance(document.mapping, Mapping):
                document = replace(document, mapping={"name": row, **document.mapping})
            given, first = (set_values, sweep_values), len(loaded.scenarios)
            said = _add(loaded, document, read.folder, given, possible_only=possible_only, progress=progress)
            if read.remarks:
                of_source = loaded.scenarios[first:]
                loaded.scenarios[first:] = [replace(s, warnings=(*read.remarks, *s.warnings)) for s in of_source]
            if said and skip_invalid:
                loaded.skipped.append((document.mapping, f"{said[0]} ({row})"))
                continue
            for problem in said:
                places.setdefault(problem, []).append(document.place)
        problems |= dict.fromkeys(_placed(problem, *where) for problem, where in places.items())
    if problems:
        raise InputError(list(problems))
    loaded.raise_if_nothing_is_possible()
    return loaded


_MOST_NAMES = 5
"""Unknown columns that a sentence names, and those of them for which it names the nearest key."""


def _foreign(read: Source) -> str:
    """Return the sentence for a table or list of which no column is a key of a scenario; empty for all others."""
    if read.single:
        return ""
    known = {key: None for part in _homes().values() for key in sorted(part)}
    found: dict[str, None] = {}
    for document in read.documents:
        mapping = question_of(document.mapping)
        names_of_row = dict.fromkeys(map(str, mapping)) if isinstance(mapping, Mapping) else {}
        # The first row of a table of scenarios ends it.
        if not known.keys().isdisjoint(names_of_row):
            return ""
        found |= names_of_row
    if not found:
        return ""
    keys = list(found)
    names = first_of(keys, _MOST_NAMES)
    near = [f"{key}{hint}" for key in keys if (hint := meant(key, list(known)))][:_MOST_NAMES]
    place = read.documents[0].place.rpartition(", ")[0]
    said = f"no column is a key of a scenario: {names}; known keys: {', '.join(SCENARIO)}"
    return "; ".join([f"{place}: {said}" if place else said, *near])


def _placed(problem: str, place: str, *others: str) -> str:
    """A mistake with the place of the first document that has it, and how many others have it too."""
    also = f" (and {len(others):,} more)" if others and place else ""
    return f"{place}: {problem}{also}" if place else problem


def _add(
    loaded: Loaded,
    document: Document,
    folder: Path,
    given: tuple[Mapping[str, Any], Mapping[str, list[Any]]],
    *,
    possible_only: bool,
    progress: Progress,
) -> list[str]:
    """Add the scenarios of a document, and return its mistakes."""
    problems: list[str] = []
    prefix = f"{document.place}: " if document.place else ""
    try:
        expanded, count = _expanded(document, *given)
        loaded.unmeasured |= _describes_another(document, *given)
        loaded.is_list |= count > 0
        progress.begin(max(count, 1), "reading")
        for cell, mapping in expanded:
            progress.check()
            progress.advance()
            try:
                loaded.scenarios.append(_scenario(mapping, folder))
                loaded.cells.append(cell)
            except InputError as error:
                if possible_only and count and is_impossible(error):
                    loaded.impossible.append((cast("Broken", error.problems[0]), prefix + error.problems[0]))
                else:
                    problems += error.problems
    except InputError as error:
        problems += error.problems
    return problems


def _scenario(mapping: Mapping[str, Any], folder: Path) -> Asked:
    """The scenario of a mapping; raise `InputError` with its mistakes, fields for a search and misplaced keys first."""
    try:
        return read_scenario(mapping, folder)
    except InputError as error:
        if is_impossible(error):
            raise
        from sightline.loading.checks import undecided

        if several := undecided(mapping):
            raise InputError(several) from None
        complaints = Complaints()
        put_right = moved(mapping, complaints)
        if not complaints.problems:
            raise
        complaints.note(read_scenario, put_right, folder)
        raise InputError(complaints.problems) from None


def mappings_of(source: Source, overrides: Overrides = ()) -> list[Mapping[str, Any]]:
    """Return the mappings of a source's documents, overrides and sweeps applied."""
    values = read_overrides(overrides)
    return [mapping for document in source.documents for _, mapping in _expanded(document, values, {})[0]]


def read_scenario(mapping: Mapping[str, Any], folder: Path) -> Asked:
    """Return the scenario of a mapping, read by its task's reader."""
    workload = mapping.get("workload")
    # Each task's reader is imported when asked for, so that a command starts with one task's alone.
    match workload.get("task") if isinstance(workload, Mapping) else None:
        case "operator":
            from sightline.loading.operations import operation_from_mapping

            return operation_from_mapping(mapping)
        case "generate":
            from sightline.loading.generation import generation_from_mapping

            return generation_from_mapping(mapping, folder)
        case "serve":
            from sightline.loading.serving import serving_from_mapping

            return serving_from_mapping(mapping, folder)
        case None | "pretrain" | "finetune":
            return scenario_from_mapping(mapping, folder)
        case other:
            # Nothing else can be said of a scenario whose task is unknown.
            raise InputError(f"workload.task is {show(other)}; allowed: {', '.join(TASKS)}{meant(other, list(TASKS))}")


def _expanded(
    document: Document, overrides: Mapping[str, Any], sweeps: Mapping[str, list[Any]]
) -> tuple[Iterable[tuple[Cell, Mapping[str, Any]]], int]:
    """The mappings that a document stands for after overrides and sweeps, and how many a sweep makes; 0 without one."""
    if document.problems:
        raise InputError(document.problems)
    if not isinstance(document.mapping, Mapping):
        raise InputError(
            f"a scenario is {show(document.mapping)}; allowed: a mapping with model, cluster, workload and plan"
        )
    left_out = {"sweep", "measured"} if _describes_another(document, overrides, sweeps) else {"sweep"}
    mapping = {k: v for k, v in document.mapping.items() if k not in left_out}
    sweep = check_sweep(document.mapping.get("sweep") or {}) | dict(sweeps)
    for key, value in overrides.items():
        if key == "sweep" or key.startswith("sweep."):
            sweep |= check_sweep(value if key == "sweep" else {key.removeprefix("sweep."): value})
            continue
        # Setting a key that the file sweeps fixes it.
        sweep = {k: v for k, v in sweep.items() if k != key or k in sweeps}
        mapping = with_value(mapping, key, value)
    return (swept(mapping, sweep), prod(map(len, sweep.values()))) if sweep else ([({}, mapping)], 0)


def _describes_another(document: Document, overrides: Mapping[str, Any], sweeps: Mapping[str, list[Any]]) -> bool:
    """Whether a document says what was measured, and settings or sweeps of a command ask about something else."""
    mapping = document.mapping
    if not isinstance(mapping, Mapping) or not mapping.get("measured"):
        return False
    changes = (key for key, value in overrides.items() if with_value(mapping, key, value) != mapping)
    return any(key.partition(".")[0] not in _NOT_ASKED for key in (*changes, *sweeps))


def read_overrides(overrides: Overrides) -> dict[str, Any]:
    """Return overrides by dotted key."""
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
    with prefixed(f"{key}={text}: "):
        return value_of(key, text)
