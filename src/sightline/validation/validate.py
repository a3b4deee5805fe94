"""Predicted against published and measured results."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias, get_args

from sightline import catalog
from sightline.catalog import entry, names
from sightline.errors import InputError, SightlineError, nearest
from sightline.prediction.training.memory import RESERVED
from sightline.profile import BETWEEN_PASSES, Profile, StageMemory
from sightline.progress import SILENT, Cancelled, Progress, watched
from sightline.scenario import GenerationScenario, Scenario
from sightline.validation.adapters import LINES, READERS
from sightline.validation.operators.suite import OperatorSuite, results_of
from sightline.validation.rows import LeftOutError, Row, case_of, lines_of, row_of_cells
from sightline.validation.serving import ServingSuite, serving_results, serving_suites
from sightline.validation.suite import Answer, Case, Kind, Result, Split, Suite, result_of

KINDS: Mapping[str, Kind] = {"pretrain": "training", "finetune": "training", "generate": "generation"}


def suites(
    data: Path | str | None = None, chosen: Collection[str] | None = None, *, locked: bool = False
) -> tuple[Suite, ...]:
    """Return the suites with cases: those of the catalog, and those read from the ``data`` folder when it is given.

    ``chosen`` names the ones to read; None reads all. Those ``locked`` as test are never among the others.
    """
    folder = None if data is None else Path(data)
    if folder is not None and not folder.is_dir():
        raise InputError(f"the data folder '{folder}' is not a folder")
    wanted = [name for name in names("published") if (chosen is None or name in chosen) and is_locked(name) == locked]
    found = [_suite(name, folder) for name in wanted]
    kinds = get_args(Kind)
    return tuple(sorted((suite for suite in found if suite.cases), key=lambda suite: kinds.index(suite.kind)))


def is_locked(name: str) -> bool:
    """Say whether a published suite is locked as test."""
    return bool(entry("published", name).get("locked", False))


def _suite(name: str, folder: Path | None) -> Suite:
    """Return the suite from the catalog's rows, or from the data folder's table when more of its rows are usable."""
    stated = entry("published", name)
    cases, left_out = _cases(_restated(stated), stated)
    if folder is not None and "csv" in stated:
        read, not_read = _cases(_from_folder(stated["csv"], folder), stated)
        if len(read) > len(cases):
            cases, left_out = read, not_read
    return Suite(
        name=name,
        kind=KINDS[stated["scenario"]["workload"]["task"]],
        quantity=stated["quantity"],
        source=stated["source"],
        decisions=tuple(stated["decisions"]),
        cases=tuple(_averaged(cases) if stated.get("average") else cases),
        left_out=left_out,
        site=stated.get("site", name),
        goal=stated.get("goal", ""),
        locked=is_locked(name),
    )


def _cases(rows: Iterable[Row | LeftOutError], suite: Mapping[str, Any]) -> tuple[list[Case], Counter[str]]:
    """Return the usable rows as cases, and how many were not, by reason."""
    cases: list[Case] = []
    left_out: Counter[str] = Counter()
    for row in rows:
        try:
            if isinstance(row, LeftOutError):
                raise row
            cases.append(case_of(row, suite))
        except LeftOutError as reason:
            left_out[str(reason)] += 1
    return cases, left_out


def _averaged(cases: Iterable[Case]) -> list[Case]:
    """Return one case for all that ask the same question, with the mean of what was measured."""
    asked: dict[str, list[Case]] = {}
    for case in cases:
        asked.setdefault(json.dumps([case.scenario, case.stage], sort_keys=True), []).append(case)
    return [replace(same[0], measured=fmean(case.measured for case in same)) for same in asked.values()]


def _restated(suite: Mapping[str, Any]) -> Iterator[Row]:
    for values in suite.get("rows", ()):
        yield dict(zip(suite["columns"], values, strict=True))


def _from_folder(spec: Mapping[str, Any], folder: Path) -> Iterator[Row | LeftOutError]:
    read = READERS[spec["reader"]] if "reader" in spec else row_of_cells
    for path in sorted(folder.glob(spec["files"])):
        for line in lines_of(path):
            for cells in LINES[spec["lines"]](line) if "lines" in spec else (line,):
                try:
                    yield read(cells, spec, line.place)
                except LeftOutError as reason:
                    yield reason
                except (ValueError, ArithmeticError) as error:
                    raise InputError(f"{line.place} cannot be read: {str(error)[:200]}") from None


_TABLE = 100
"""Predictions of one case that take as long as a table of operators, about."""

Predict: TypeAlias = Callable[[Any], Any]
"""A scenario, of training or generation, into its profile."""
AnySuite: TypeAlias = Suite | ServingSuite | OperatorSuite


@watched
def validate(
    names: str | Sequence[str] | None = None,
    *,
    data: Path | str | None = None,
    predict: Predict | None = None,
    progress: Progress = SILENT,
) -> list[Result]:
    """Predict every case of the chosen suites (all when None) and return the errors of each suite's two splits.

    ``names`` are names of suites, beginnings of them, or patterns with ``*``. ``data`` is a folder with the public data
    sets; ``predict`` replaces `sightline.prediction.predict`.
    """
    return evaluate(choose(names, data), predict, progress)


WITHOUT_DATA = (
    "without --data DIR (or SIGHTLINE_DATA) there are only the small suites of the catalog; single operators (matmul,"
    " attention, NCCL, ...) and the large sets are read from a folder of published tables, which are not part of"
    " Sightline: `sightline catalog published NAME` says where they come from"
)
"""What is said of suites where no data folder is given."""
_LISTED = 12
"""Suites that a message lists."""


def choose(
    names: str | Sequence[str] | None = None, data: Path | str | None = None, *, locked: bool = False
) -> Sequence[AnySuite]:
    """Return the suites of these names, beginnings or patterns; raise `InputError` for those there are none of.

    ``locked``: those that are locked as test, which are never among the others.
    """
    tables: Sequence[ServingSuite | OperatorSuite] = () if locked else (*serving_suites(data), *_operator_suites(data))
    published = [name for name in catalog.names("published") if is_locked(name) == locked]
    if names is None:
        return (*suites(data, locked=locked), *tables)
    _require_unlocked(names, locked=locked)
    known = [*published, *(s.name for s in tables)]
    wanted = _matching([names] if isinstance(names, str) else names, known, _unread(data, tables))
    found = suites(data, [name for name in wanted if name in published], locked=locked)
    missing = [name for name in wanted if name in published and name not in {suite.name for suite in found}]
    if missing and not found:
        where = f"--data '{data}' lacks its table" if data else WITHOUT_DATA
        raise InputError([f"the suite '{name}' is not in the catalog: {where}" for name in missing])
    return (*found, *(suite for suite in tables if suite.name in wanted))


def _require_unlocked(names: str | Sequence[str], *, locked: bool) -> None:
    """Raise `InputError` where a suite is named that is locked, or one that is not where only those are asked for."""
    for name in [names] if isinstance(names, str) else names:
        if name in catalog.names("published") and is_locked(name) != locked:
            how = "is not locked; leave --locked out" if locked else "is locked as test; --locked evaluates it"
            raise InputError([f"the suite '{name}' {how}"])


def evaluate(chosen: Sequence[AnySuite], predict: Predict | None = None, progress: Progress = SILENT) -> list[Result]:
    """Predict the chosen suites and return the errors of each suite's splits; if stopped, of those that are done."""
    results: list[Result] = []
    progress.begin(sum(map(work_of, chosen)), "validating")
    with suppress(Cancelled):
        for suite in chosen:
            progress.check()
            if isinstance(suite, OperatorSuite | ServingSuite):
                results += results_of(suite) if isinstance(suite, OperatorSuite) else serving_results(suite)
                progress.advance(work_of(suite))
            else:
                results += _results(suite, predict or _predict_at(suite), progress)
    return results


def work_of(suite: AnySuite) -> int:
    """Return how much work a suite is, in predictions of one case."""
    if isinstance(suite, ServingSuite):
        return _TABLE * suite.runs
    return _TABLE if isinstance(suite, OperatorSuite) else len(suite.cases)


def _predict_at(suite: Suite) -> Predict:
    """What predicts the cases of a suite: as its fit part taught of the site that they are of.

    Those of locked suites as any user's.
    """
    from sightline.prediction import predict

    if suite.locked:
        return predict
    return _step_at_site(suite) if suite.kind == "training" else _generation_at_site(suite)


def _step_at_site(suite: Suite) -> Predict:
    from sightline.prediction.training.effects import beliefs_at_sites, site_of
    from sightline.prediction.training.knowledge import Knowledge
    from sightline.prediction.training.predict import predict as predict_step

    def predict(scenario: Scenario) -> Profile:
        site = site_of(suite.site, scenario.cluster.device)
        return predict_step(scenario, known=Knowledge(stated=beliefs_at_sites(), site=site))

    return predict


def _generation_at_site(suite: Suite) -> Predict:
    from sightline.prediction.generation.predict import predict_generation
    from sightline.prediction.generation.sites import MeasuredSite, source_site
    from sightline.validation.engine_cases import source_of

    def predict(scenario: GenerationScenario) -> Profile:
        site = source_site(source_of(suite), scenario.plan.engine.name, scenario.cluster.device)
        return predict_generation(scenario, known=MeasuredSite(name=site))

    return predict


def _operator_suites(data: Path | str | None) -> Sequence[OperatorSuite]:
    if data is None:
        return ()
    from sightline.validation.operators import operator_suites

    return operator_suites(data)


def _matching(patterns: Sequence[str], known: Sequence[str], unread: str) -> list[str]:
    """Return the known names that are, match or begin with one of the patterns, in the order they are known.

    ``unread`` says which suites were not looked at.
    """
    by_pattern = {pattern: _named(pattern, known) for pattern in patterns}
    unknown = [pattern for pattern, found in by_pattern.items() if not found]
    if unknown:
        raise InputError(
            [f"unknown suite '{name}'{nearest(name, known) or f'; {unread or _listed(known)}'}" for name in unknown]
        )
    return [name for name in known if any(name in found for found in by_pattern.values())]


def _unread(data: Path | str | None, operators: Sequence[AnySuite]) -> str:
    """Which suites there are none of for want of their tables."""
    if data is None:
        return WITHOUT_DATA
    return "" if operators else f"--data '{data}' has no table of single operators"


def _listed(known: Sequence[str]) -> str:
    """The first suites, and where the others are listed."""
    more = f" and {len(known) - _LISTED} more (`sightline catalog published`)" if len(known) > _LISTED else ""
    return f"suites: {', '.join(known[:_LISTED])}{more}"


def _named(pattern: str, known: Sequence[str]) -> list[str]:
    if pattern in known:
        return [pattern]
    return [name for name in known if pattern and (fnmatchcase(name, pattern) or name.startswith(pattern))]


def _results(suite: Suite, predict: Predict, progress: Progress) -> list[Result]:
    answers = []
    for case in suite.cases:
        progress.check()
        answers.append(_answer(case, suite.quantity, predict))
        progress.advance()
    by_split = {split: [a for a in answers if a.case.split == split] for split in get_args(Split)}
    return [result_of(suite.name, suite.quantity, split, part, suite.kind) for split, part in by_split.items() if part]


A_BOUND = "no framework of the catalog offers the plan: the answer is a bound, and no prediction"
"""Why a case has no answer where only the ideal framework takes its plan."""


def _answer(case: Case, quantity: str, predict: Predict) -> Answer:
    """Return the prediction for a case; one that cannot be asked or answered says why."""
    try:
        profile = _profile(case.scenario, predict)
        value = quantity_of(quantity, profile, case.stage)
        if case.baseline is not None:
            value /= quantity_of(quantity, _profile(case.baseline, predict), case.stage)
        readings = [profile] if case.alternative is None else [profile, _profile(case.alternative, predict)]
    except SightlineError as error:
        return Answer(case=case, reason=str(error))
    known = [span for reading in readings if (span := reading.interval.get(quantity)) is not None]
    if any(getattr(reading, "evidence", {}).get("framework") == "datasheet" for reading in readings):
        return Answer(case=case, reason=A_BOUND)
    interval = (min(float(low) for low, _ in known), max(float(high) for _, high in known)) if known else None
    return Answer(case=case, predicted=value, interval=interval)


def _profile(scenario: Mapping[str, Any], predict: Predict) -> Any:
    from sightline.loading import generation_from_mapping, scenario_from_mapping

    generates = scenario["workload"]["task"] == "generate"
    return predict(generation_from_mapping(scenario) if generates else scenario_from_mapping(scenario))


PASSES = ("loss", "backward of a layer")
"""Moments of forward and backward passes."""
QUANTITIES: Mapping[str, Callable[[Profile], Any]] = {
    # What the layers of the first pipeline stage keep, without embedding and loss.
    "layer_activation_bytes": lambda profile: profile.stages[0].items["layer activations"],
    # The same, to be divided by that of the case's baseline.
    "relative_layer_activations": lambda profile: profile.stages[0].items["layer activations"],
    # All devices together, each taken to be as full as the fullest.
    "all_devices_bytes": lambda profile: profile.memory_bytes["total"] * profile.scenario.cluster.devices,
    # The fullest device without what is allocated in addition to tensors, as a framework's allocator counts it.
    "device_bytes": lambda profile: profile.memory_bytes["total"],
    "allocated_bytes": lambda profile: profile.memory_bytes["total"] - profile.memory_bytes["framework"],
    # What the allocator of the fullest device reserves: also gaps and blocks that no tensor uses any more.
    "reserved_bytes": lambda profile: max(s.total - s.parts["framework"] + s.items[RESERVED] for s in profile.stages),
}
"""Those that no profile has under its own name."""
OF_A_STAGE: Mapping[str, Callable[[StageMemory], Any]] = {
    # What the allocator holds between two passes: weights, gradients, optimizer, lasting buffers.
    "state_bytes": lambda stage: stage.moments[BETWEEN_PASSES] - stage.parts["framework"],
    # What a step's forward passes leave for its backward passes.
    "kept_bytes": lambda stage: stage.items["layer activations"] + stage.items["embedding and head activations"],
    # How far memory rises in forward and backward passes above what is held after them.
    "rise_bytes": lambda stage: max(stage.moments[name] for name in PASSES) - stage.moments[BETWEEN_PASSES],
}
"""Quantities of one pipeline stage."""


def quantity_of(name: str, profile: Any, stage: int = 0) -> float:
    """Return a quantity of a profile, of that pipeline stage where it is one stage's, by a suite's ``quantity``."""
    if name in OF_A_STAGE:
        return float(OF_A_STAGE[name](profile.stages[stage]))
    return float(QUANTITIES[name](profile) if name in QUANTITIES else getattr(profile, name))
