"""What is to be explained: the words of a request as a scenario with its question, a measured run, or a trace."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from sightline.errors import InputError, prefixed
from sightline.explanation.compared import Side
from sightline.explanation.reading import chosen, file_of, is_answer, run_named, side_of_run
from sightline.folders import located
from sightline.loading import read_all, to_mapping
from sightline.loading.foreign import of_path, read_known
from sightline.loading.loader import read_overrides
from sightline.loading.sources import Source, read_source, read_stdin, with_settings
from sightline.profile import Profile, Row
from sightline.runs import Run, Store

if TYPE_CHECKING:
    from sightline.scenario import GenerationScenario, OperatorScenario, Scenario, ServingScenario

Question: TypeAlias = "Scenario | OperatorScenario | GenerationScenario | ServingScenario"
Explained: TypeAlias = "Question | Mapping[str, Any] | Source | Profile | Run | str | Path | Sequence[str | Path]"
"""What may be explained: a scenario or its mapping, a profile, a run, the name of a run or file, a trace or several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A scenario, asked or measured."""

    name: str = ""
    scenario: "Question | None"
    """As it was asked; None where a result does not say which it is of."""
    read: "Callable[[Mapping[str, Any]], Question] | None" = None
    """Reads the scenario's source again with other settings; None for a scenario without one."""
    words: Sequence[str] = ("FILE",)
    """What was typed to ask for the scenario: its file and options."""
    measured: Side | None = None
    rows: Sequence[Row] = ()
    """The measured table."""
    given: Any = None
    """The measured run or profile as an anchor takes it."""
    profile: Profile | None = None
    """The prediction that is to be explained, where one was given."""

    def again(self, change: Mapping[str, Any]) -> "Question":
        """Return the scenario with other settings.

        Raises:
            InputError: They break a rule.
        """
        return self.read(change) if self.read is not None else _with(self.scenario, change)

    def command(self, change: Mapping[str, Any]) -> str:
        """Return the command that predicts the scenario with other settings."""
        is_load = self.scenario is not None and self.scenario.workload.task == "serve"
        verb = "simulate" if is_load else "predict"
        return with_settings(shlex.join(("sightline", verb, *self.words)), change)


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFiles:
    """The trace of a job, in one file or one for each rank."""

    paths: Sequence[Path] = field(default_factory=tuple)


def subject_of(asked: Explained, settings: Sequence[str] | Mapping[str, Any], store: Store) -> Subject | TraceFiles:
    """Return what a request names.

    Raises:
        InputError: It names nothing, several scenarios, or what has no times.
    """
    if isinstance(asked, Profile):
        return _of_profile(asked)
    if isinstance(asked, Run):
        return _of_run(asked, store)
    if hasattr(asked, "workload"):
        return _of_question(asked, "")
    if isinstance(asked, Source | Mapping):
        source = asked if isinstance(asked, Source) else replace(read_source(asked), words=("FILE",))
        return _of_file(shlex.join(source.words), source, None, settings)
    if isinstance(asked, str | Path):
        return _of_word(str(asked), settings, store, is_path=isinstance(asked, Path))
    if isinstance(asked, list | tuple) and asked and all(isinstance(one, str | Path) for one in asked):
        return _of_words([str(one) for one in asked], settings, store)
    raise InputError(f"explain takes a scenario, a profile, a run, a file or a trace, not {type(asked).__name__}")


def _of_words(words: Sequence[str], settings: Sequence[str] | Mapping[str, Any], store: Store) -> Subject | TraceFiles:
    if len(words) == 1:
        return _of_word(words[0], settings, store)
    others = [word for word in words if not is_trace(Path(word))]
    if others:
        raise InputError(f"several files must be traces of the ranks of one job; {others[0]!r} is not a trace")
    return TraceFiles(paths=[Path(word) for word in words])


def is_trace(path: Path) -> bool:
    """Return whether a path is a folder, which is explained as the traces in it, or looks like a trace."""
    from sightline.traces.files import looks_like_trace

    return path.is_dir() or (path.is_file() and looks_like_trace(path))


def _of_word(
    name: str, settings: Sequence[str] | Mapping[str, Any], store: Store, *, is_path: bool = False
) -> Subject | TraceFiles:
    if is_trace(place := located(Path(name))):
        return TraceFiles(paths=[place])
    file = (Path(name), None) if name == "-" else file_of(name, store, is_path=is_path)
    if file is not None:
        return _of_file(name, *file, settings)
    if said := of_path(Path(name)):
        raise InputError(said)
    run = run_named(name, store)
    if settings:
        raise InputError("--set applies to scenario files, not to a measured run")
    return _of_run(run, store)


def _of_file(
    name: str, path: Path | Source, number: int | None, settings: Sequence[str] | Mapping[str, Any]
) -> Subject:
    source = read_known(read_stdin() if name == "-" else path)
    if is_answer(source.documents[0].mapping) and isinstance(path, Path):
        if settings:
            raise InputError(f"--set applies to scenario files; '{name}' holds a result")
        return _of_result_file(path, number, name)
    stated = read_overrides(settings)
    found = read_all([source], stated).scenarios
    scenario = chosen(found, number, name, "explain")

    def again(change: Mapping[str, Any]) -> Question:
        # A sweep that a change breaks in another cell says nothing about this one.
        return chosen(read_all([source], {**stated, **change}).scenarios, number, name, "explain")

    words = [
        *(source.words or (name,)),
        *(word for key, value in _as_words(settings) for word in ("--set", f"{key}={value}")),
    ]
    return Subject(
        name=name,
        scenario=scenario,
        read=again,
        words=words if len(found) == 1 else [str(path)],
    )


def _as_words(settings: Sequence[str] | Mapping[str, Any]) -> list[tuple[str, Any]]:
    if isinstance(settings, Mapping):
        return list(settings.items())
    given = [settings] if isinstance(settings, str) else settings
    return [(one.partition("=")[0], one.partition("=")[2]) for one in given]


def _with(scenario: Any, change: Mapping[str, Any]) -> Question:
    return read_all([to_mapping(scenario)], change).scenarios[0]


def _of_question(scenario: Any, name: str) -> Subject:
    return Subject(name=name or scenario.name, scenario=scenario)


def _of_profile(profile: Profile) -> Subject:
    import numpy as np

    from sightline.explanation.reading import side_of_profile

    if np.ndim(profile.whole_s):
        raise InputError("the profile holds several plans; explain needs one, such as profile[0]")
    plain = _of_question(profile.scenario, "")
    if profile.source == "predicted":
        return replace(plain, profile=profile)
    return replace(plain, measured=side_of_profile(profile), rows=profile.rows, given=profile)


def _of_run(run: Run, store: Store) -> Subject:
    side = side_of_run(run, store, "explained")
    return replace(_measured(side, _rows(store.rows(run).to_dicts()), run), words=_file_of(run, store))


def _file_of(run: Run, store: Store) -> Sequence[str]:
    """What is typed to ask for a run's scenario; a place holder where the store is no folder."""
    file = Path(store.place).expanduser() / run.id / "run.json"
    return (str(file),) if file.is_file() else ("FILE",)


def _of_result_file(path: Path, number: int | None, name: str) -> Subject:
    from sightline.explanation.reading import side_of_file

    side, words = side_of_file(path, number, name), [str(path)]
    if not side.is_measured:
        if not side.scenario:
            raise InputError(f"'{name}' has no scenario, so it cannot be predicted")
        return replace(_of_question(_scenario_of(side), name), words=words)
    documents = [document.mapping for document in read_source(path).documents]
    first = documents[(number or 1) - 1]
    return replace(_measured(side, _rows(first.get("rows") or ()), str(path)), words=words)


def _measured(side: Side, rows: Sequence[Row], given: Any) -> Subject:
    scenario = _scenario_of(side) if side.scenario else None
    return Subject(name=side.name, scenario=scenario, measured=side, rows=rows, given=given)


def _scenario_of(side: Side) -> Question:
    stated = {key: value for key, value in side.scenario.items() if key != "measured"}
    with prefixed(f"the scenario of '{side.name}': "):
        return read_all([stated]).scenarios[0]


def _rows(records: Sequence[Mapping[str, Any]]) -> list[Row]:
    return [
        Row.from_mapping({"block": "", "module": "", "operator": "", "bound": "", **record})
        for record in records
        if record.get("time_s") is not None and record.get("phase")
    ]
