"""Compares predictions with published and measured results."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any, Self, TypeAlias, get_args

from sightline import catalog
from sightline.catalog import entry, names
from sightline.content import flatten
from sightline.errors import InputError, SightlineError, nearest
from sightline.loading import read_all, to_mapping
from sightline.loading.loader import Loaded, read_scenario
from sightline.loading.parts import NO_FIGURES
from sightline.prediction.anchoring.timed import ran_out_of_memory
from sightline.prediction.training.memory import RESERVED
from sightline.profile import BETWEEN_PASSES, Profile, StageMemory
from sightline.progress import SILENT, Cancelled, Progress, watched
from sightline.scenario import GenerationScenario, Scenario
from sightline.validation.adapters import LINES, READERS
from sightline.validation.cases import Answer, Case, Kind, Result, Suite, publisher, result_of, results_by_split
from sightline.validation.operators import OperatorSuite, results_of
from sightline.validation.serving import ServingSuite, serving_results, serving_suites
from sightline.validation.tables import LeftOutError, Row, case_of, lines_of, row_of_cells

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
    read = [_suite(name, folder) for name in wanted]
    kinds = get_args(Kind)
    return tuple(sorted((suite for suite in read if suite.cases), key=lambda suite: kinds.index(suite.kind)))


def is_locked(name: str) -> bool:
    """Say whether a published suite is locked as test."""
    return bool(entry("published", name).get("locked", False))


def _suite(name: str, folder: Path | None) -> Suite:
    """Return the suite from the catalog's rows, or from the data folder's table when more of its rows are usable."""
    stated = entry("published", name)
    restated = (dict(zip(stated["columns"], values, strict=True)) for values in stated.get("rows", ()))
    cases, left_out = _cases(restated, stated)
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
    by_question: dict[str, list[Case]] = {}
    for case in cases:
        by_question.setdefault(json.dumps([case.scenario, case.stage], sort_keys=True), []).append(case)
    return [replace(same[0], measured=fmean(case.measured for case in same)) for same in by_question.values()]


def _from_folder(spec: Mapping[str, Any], folder: Path) -> Iterator[Row | LeftOutError]:
    read = READERS[spec["reader"]] if "reader" in spec else row_of_cells
    for path in sorted(folder.glob(spec["files"])):
        for line in lines_of(path):
            for cells in LINES[spec["lines"]](line) if "lines" in spec else (line,):
                try:
                    yield read(cells, spec)
                except LeftOutError as reason:
                    yield reason
                except (ValueError, ArithmeticError) as error:
                    raise InputError(f"{line.place} cannot be read: {str(error)[:200]}") from None


_TABLE = 100
"""Predictions of one case that take as long as a table of operators, about."""

Predict: TypeAlias = Callable[[Any], Any]
"""A scenario, of training or generation, into its profile."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredFiles:
    """Scenarios of files that say what was measured of them."""

    loaded: Loaded
    skip_invalid: bool = False
    """Whether scenarios that cannot be answered are counted instead of refused."""
    failed: bool = False
    """Whether plans that ran out of memory are answered too: those that state ``measured.fits: false``, or a source and
    no figure."""

    @classmethod
    def read(
        cls,
        files: Sequence[object],
        *,
        skip_invalid: bool = False,
        failed: bool = False,
        progress: Progress = SILENT,
    ) -> Self:
        """Read files; raise `InputError` for mistakes in them and where nothing was measured."""
        loaded = read_all(files, skip_invalid=skip_invalid, progress=progress)
        without = sum(not any(_cases_of({"measured": of.measured}, failed=failed)) for of in loaded.scenarios)
        if without and not skip_invalid:
            ran_out = sum(any(_cases_of({"measured": of.measured}, failed=True)) for of in loaded.scenarios) - (
                len(loaded.scenarios) - without
            )
            raise InputError(
                f"{without:,} of {len(loaded.scenarios):,} scenarios have {NOT_MEASURED}{_ways_on(ran_out, failed)}"
            )
        return cls(loaded=loaded, skip_invalid=skip_invalid, failed=failed)


def _ways_on(ran_out: int, failed: bool) -> str:
    """What reads or leaves out scenarios without a figure, of which so many state that they ran out of memory."""
    if failed:
        return "; measured.fits false states that a plan ran out of memory; --skip-invalid leaves others out"
    reads = f"; {ran_out:,} ran out of memory, which --plans reads" if ran_out else ""
    return f"{reads}; --skip-invalid leaves them out"


AnySuite: TypeAlias = Suite | ServingSuite | OperatorSuite


@watched
def validate(
    names: str | Sequence[str] | None = None,
    *,
    files: str | Path | Sequence[object] = (),
    skip_invalid: bool = False,
    data: Path | str | None = None,
    predict: Predict | None = None,
    progress: Progress = SILENT,
) -> list[Result]:
    """Predict every case of the chosen suites (all when None) and return the errors of each suite's two splits.

    ``names`` are names of suites, beginnings of them, or patterns with ``*``. ``files`` hold scenarios with what was
    measured of them; with them and no ``names``, no suite is chosen. ``skip_invalid`` leaves out their scenarios that
    cannot be answered. ``data`` is a folder with the public data sets; ``predict`` replaces
    `sightline.prediction.predict`.
    """
    chosen: list[AnySuite | MeasuredFiles] = [] if files and names is None else [*choose(names, data)]
    if files:
        several = [files] if isinstance(files, str | Path) else files
        chosen.append(MeasuredFiles.read(several, skip_invalid=skip_invalid, progress=progress))
    return evaluate(chosen, predict, progress)


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
    chosen = suites(data, [name for name in wanted if name in published], locked=locked)
    missing = [name for name in wanted if name in published and name not in {suite.name for suite in chosen}]
    if missing and not chosen:
        where = f"--data '{data}' lacks its table" if data else WITHOUT_DATA
        raise InputError([f"the suite '{name}' is not in the catalog: {where}" for name in missing])
    return (*chosen, *(suite for suite in tables if suite.name in wanted))


def _require_unlocked(names: str | Sequence[str], *, locked: bool) -> None:
    """Raise `InputError` where a suite is named that is locked, or one that is not where only those are asked for."""
    for name in [names] if isinstance(names, str) else names:
        if name in catalog.names("published") and is_locked(name) != locked:
            how = "is not locked; leave --locked out" if locked else "is locked as test; --locked evaluates it"
            raise InputError([f"the suite '{name}' {how}"])


def evaluate(
    chosen: Sequence[AnySuite | MeasuredFiles], predict: Predict | None = None, progress: Progress = SILENT
) -> list[Result]:
    """Predict the chosen suites and return the errors of each suite's splits; if stopped, of those that are done."""
    results: list[Result] = []
    # Files are a stage of their own.
    suites = [suite for suite in chosen if not isinstance(suite, MeasuredFiles)]
    progress.begin(sum(map(work_of, suites)), "validating")
    with suppress(Cancelled):
        for suite in suites:
            progress.check()
            if isinstance(suite, OperatorSuite | ServingSuite):
                results += results_of(suite) if isinstance(suite, OperatorSuite) else serving_results(suite)
                progress.advance(work_of(suite))
            else:
                results += _results(suite, predict or _predict_at(suite), progress)
        for files in chosen:
            if isinstance(files, MeasuredFiles):
                progress.check()
                results += _file_results(files, predict or predict_any, progress)
    return results


_Key: TypeAlias = tuple[Kind, str, str]
"""Kind, source and quantity of a measurement."""


def _file_results(files: MeasuredFiles, predict: Predict, progress: Progress) -> list[Result]:
    """The errors by source and quantity; every scenario is asked as any user would ask."""

    def answer(scenario: Any) -> list[tuple[_Key, Answer]]:
        cases = list(_cases_of(scenario, failed=files.failed))
        if not cases:
            raise InputError(NOT_MEASURED)
        profile = predict(scenario)
        return [(key, _answer(case, _ASKED.get(key[-1], key[-1]), lambda _: profile)) for key, case in cases]

    loaded = files.loaded
    answered = chain(*loaded.answered_by(answer, progress, "validating", skip_invalid=files.skip_invalid))
    skipped = [
        (key, Answer(case=case, reason=why))
        for of, why in loaded.skipped
        for key, case in _cases_of(of, failed=files.failed)
    ]
    answers: dict[_Key, list[Answer]] = {}
    for key, found in (*answered, *skipped):
        answers.setdefault(key, []).append(found)
    return [result_of(source, quantity, "own", of, kind) for (kind, source, quantity), of in answers.items()]


OUT_OF_MEMORY = "out_of_memory"
"""In place of a quantity: the plans ran out of memory, and nothing was measured."""
_ASKED: Mapping[str, str] = {OUT_OF_MEMORY: "memory_bytes.total"}
NOT_MEASURED = "no measured figure, such as measured.step_time_s"
_FILE_KINDS: Mapping[str, Kind] = {**KINDS, "serve": "serving", "operator": "operators"}


def _cases_of(stated: Any, *, failed: bool = False) -> Iterator[tuple[_Key, Case]]:
    """The figures that a scenario, or its mapping, says were measured of it, as far as they can be read.

    With ``failed``, one of a plan that ran out of memory: its step never ended.
    """
    scenario = stated if isinstance(stated, Mapping) else to_mapping(stated) if hasattr(stated, "measured") else {}
    workload, measured = (
        part if isinstance(part := scenario.get(key), Mapping) else {} for key in ("workload", "measured")
    )
    kind = _FILE_KINDS.get(str(workload.get("task")), "training")
    source = publisher(str(measured.get("source", ""))) or "no source stated"
    if failed and ran_out_of_memory(measured):
        yield (kind, source, OUT_OF_MEMORY), Case(scenario=scenario, measured=inf, split="own")
        return
    for quantity, value in flatten(measured).items():
        if isinstance(value, int | float) and value > 0 and quantity not in NO_FIGURES:
            yield (kind, source, quantity), Case(scenario=scenario, measured=value, split="own")


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
    from sightline.prediction.training.constants import beliefs_at_sites, site_of
    from sightline.prediction.training.knowledge import Knowledge
    from sightline.prediction.training.step_profile import predict as predict_step

    def predict(scenario: Scenario) -> Profile:
        site = site_of(suite.site, scenario.cluster.device)
        return predict_step(scenario, known=Knowledge(stated=beliefs_at_sites(), site=site))

    return predict


def _generation_at_site(suite: Suite) -> Predict:
    from sightline.prediction.generation.batch_profile import predict_generation
    from sightline.prediction.generation.sites import MeasuredSite, source_site

    def predict(scenario: GenerationScenario) -> Profile:
        site = source_site(publisher(suite.source), scenario.plan.engine.name, scenario.cluster.device)
        return predict_generation(scenario, known=MeasuredSite(name=site))

    return predict


def _operator_suites(data: Path | str | None) -> Sequence[OperatorSuite]:
    if data is None:
        return ()
    from sightline.validation.operators.families import operator_suites

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
        answers.append(_answer(case, suite.quantity, lambda scenario: predict(read_scenario(scenario, Path()))))
        progress.advance()
    return results_by_split(suite.name, suite.quantity, answers, suite.kind)


A_BOUND = "no framework of the catalog offers the plan: the answer is a bound, and no prediction"
"""Why a case has no answer where only the ideal framework takes its plan."""


def _answer(case: Case, quantity: str, profile_of: Callable[[Mapping[str, Any]], Any]) -> Answer:
    """Return the prediction for a case; one that cannot be asked or answered says why."""
    try:
        profile = profile_of(case.scenario)
        value = quantity_of(quantity, profile, case.stage)
        if case.baseline is not None:
            value /= quantity_of(quantity, profile_of(case.baseline), case.stage)
        readings = [profile] if case.alternative is None else [profile, profile_of(case.alternative)]
    except SightlineError as error:
        return Answer(case=case, reason=str(error))
    known = [span for of in readings if (span := of.interval.get(_key_of(quantity, of))) is not None]
    evidence = [getattr(of, "evidence", {}) for of in readings]
    if any(isinstance(of, Mapping) and of.get("framework") == "datasheet" for of in evidence):
        return Answer(case=case, reason=A_BOUND)
    highs = [value if high is None else float(high) for _, high in known]
    interval = (min(float(low) for low, _ in known), max(highs)) if known else None
    return Answer(case=case, predicted=value, interval=interval, fit=getattr(profile, "fit", ""))


def predict_any(scenario: Any) -> Profile:
    """Return the prediction of a scenario of any task; a load is simulated."""
    from sightline.prediction import predict
    from sightline.scenario import ServingScenario
    from sightline.simulation.simulate import simulate

    return simulate(scenario) if isinstance(scenario, ServingScenario) else predict(scenario)


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
    if name in QUANTITIES:
        return float(QUANTITIES[name](profile))
    key, _, part = _key_of(name, profile).partition(".")
    value: Any = getattr(profile, key, None)
    value = value.get(part) if part else value
    if value is None:
        raise InputError("the plan does not fit in memory" if profile.fits is False else f"no prediction of {name}")
    return float(value)


def _key_of(quantity: str, profile: Any) -> str:
    """The key under which the profile has a quantity: times of a load have statistics, a plain one is their mean."""
    name, _, part = quantity.partition(".")
    if not isinstance(getattr(profile, name, None), Mapping):
        return name
    return f"{name}.{part or {'memory_bytes': 'total'}.get(name, 'mean')}"
