"""Describe a launch and save it into a folder; describe what was read back of one and write it as a scenario file."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

from sightline.content import fix_mappings
from sightline.errors import InputError, noted
from sightline.loading import load
from sightline.loading.checks import with_value
from sightline.loading.clusters import read_cluster
from sightline.loading.models import resolve_model
from sightline.loading.question import USUAL_REQUESTS
from sightline.scenario.generation import SERVING_ONLY
from sightline.scenario.training import sequences_of
from sightline.whole_files import unwritable, write_whole


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launch:
    """The command and the files that run a scenario in its framework."""

    framework: str
    """As ``plan.framework`` names it."""
    command: str
    """Shell command, to be run in the folder of the files; on every node where there are several."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts by their names relative to the folder."""
    without_counterpart: Sequence[str] = ()
    """Sentences: what of the scenario the framework has no argument for, and what the user has to supply."""

    def __post_init__(self) -> None:
        fix_mappings(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """A framework's own configuration or command line as a scenario, as far as it says one."""

    framework: str
    """As ``plan.framework`` names it."""
    scenario: Mapping[str, Any]
    """Keys and values of a scenario file."""
    read_as: str = ""
    """A sentence: what the source was taken for, with the release whose options are known."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """What a scenario needs and the source cannot say: dotted key, and what belongs there."""
    assumed: Mapping[str, Any] = field(default_factory=dict)
    """What the source cannot say but a scenario needs, by dotted key: values that are in ``scenario`` all the same."""
    without_counterpart: Sequence[str] = ()
    """Sentences: arguments that no key of a scenario stands for."""
    unread: Sequence[str] = ()
    """Options and keys that may change time or memory and were not understood, as they are written."""
    samples_per_device: int | None = None
    """Samples of a step that each replica processes, where the whole batch follows from the number of devices."""
    steps: int | None = None
    """Optimizer steps of the run, from which its tokens follow with the whole batch."""

    def __post_init__(self) -> None:
        fix_mappings(self)


BLOCKING = "CUDA_LAUNCH_BLOCKING"
"""Variable of ``plan.launch_blocking``."""
SCRIPT = "launch.sh"
"""Name of the script that holds the command."""
_NEEDED = re.compile(r"\$\{(\w+):\?\}")
"""A variable without which the shell refuses a command."""
_IN_ITS_FOLDER = 'cd "$(dirname "$0")"\n'


def check_folder(folder: Path | str) -> None:
    """Refuse a folder into which no launch can be written: a file, a protected folder, or one with another script.

    Raises:
        InputError: nothing can be written there.
    """
    root = Path(folder)
    there = next(place for place in (root, *root.absolute().parents) if place.exists())
    if not there.is_dir():
        raise InputError(f"'{there}' is a file; name a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"cannot write into '{there}': permission denied")
    script = root / SCRIPT
    try:
        is_other = script.exists() and _IN_ITS_FOLDER.encode() not in script.read_bytes()
    except OSError as error:
        raise unwritable(script, error) from None
    if is_other:
        raise _other_content(script)


def save(launch: Launch, folder: Path | str, *, overwrite: bool = False) -> tuple[Path, ...]:
    """Write a launch's files and its command, each whole or not at all, and return their paths, the script first.

    Raises:
        InputError: A file of another content is there already and may not be overwritten, or the folder cannot be
            written.
    """
    root = Path(folder)
    texts = {SCRIPT: script_of(launch), **launch.files}
    others = [] if overwrite else [root / name for name, text in texts.items() if _differs(root / name, text)]
    if others:
        raise InputError([problem for other in others for problem in _other_content(other).problems])
    for name, text in texts.items():
        _write(root / name, text, executable=name == SCRIPT)
    return tuple(root / name for name in texts)


def starting(launch: Launch, folder: Path | str) -> str:
    """Return what to type to run the saved script, with a word to replace for each variable that it needs."""
    needed = [f"{name}={name}" for name in dict.fromkeys(_NEEDED.findall(launch.command))]
    return " ".join([*needed, shlex.join(["bash", str(Path(folder) / SCRIPT)])])


def script_of(launch: Launch) -> str:
    """Return the launch's command as a script that runs in its own folder and passes its arguments on."""
    passed_on = "" if launch.command.startswith("bash ") else ' "$@"'
    said = "".join(f"# {sentence}\n" for sentence in launch.without_counterpart)
    return f"#!/bin/bash\n{said}set -e\n{_IN_ITS_FOLDER}{launch.command}{passed_on}\n"


def _differs(path: Path, text: str) -> bool:
    try:
        return path.exists() and path.read_bytes() != text.encode()
    except OSError as error:
        raise unwritable(path, error) from None


def _write(path: Path, text: str, *, executable: bool) -> None:
    try:
        write_whole(path, text, mode=0o755 if executable else None)
    except OSError as error:
        raise unwritable(path, error) from error


def _other_content(path: Path) -> InputError:
    return InputError(f"'{path}' already exists with other content; choose another folder or remove it")


ORDER = ("name", "model", "cluster", "workload", "plan")
"""Parts of a scenario in the order of a file."""


def at_rate(reading: Reading, rate: float) -> Reading:
    """Return the reading of a server with requests that arrive at a rate instead of one batch.

    Raises:
        InputError: Nothing is served.
    """
    stated = reading.scenario.get("workload", {})
    if stated.get("task") != "generate":
        raise InputError(f"--rate applies to commands of servers; workload.task is {stated.get('task')}")
    sizes = {key: stated[key] for key in ("prompt_tokens", "output_tokens")} | {"count": USUAL_REQUESTS}
    drawn = {key: value for key, value in stated.items() if key == "sampling"}
    arrival = {"process": "poisson", "rate": rate}
    workload = {"task": "serve", "requests": sizes, "arrival": arrival, **drawn}
    assumed = {f"workload.requests.{key}": value for key, value in sizes.items()}
    assumed["workload.arrival.process"] = "poisson"
    others = {key: value for key, value in reading.assumed.items() if not key.startswith("workload.")}
    return replace(reading, scenario={**reading.scenario, "workload": workload}, assumed=assumed | others)


def completed(reading: Reading, settings: Mapping[str, Any]) -> Reading:
    """Return a reading with further values by dotted key, which are no longer missing.

    Raises:
        InputError: Nothing is missing any more, and the scenario breaks rules; a sentence for each.
    """
    scenario = dict(reading.scenario)
    for key, value in settings.items():
        scenario = with_value(scenario, key, value)
    scenario, said = _of_cluster(scenario, reading, settings)
    plan, task = scenario.get("plan"), scenario.get("workload", {}).get("task")
    if task == "generate" and isinstance(plan, Mapping) and (useless := {*SERVING_ONLY} & {*plan}):
        scenario["plan"] = {key: value for key, value in plan.items() if key not in useless}
        said += [f"plan.{key} {plan[key]} matters under a load alone; use --rate" for key in sorted(useless)]
    scenario = {key: scenario[key] for key in (*ORDER, *scenario) if key in scenario}
    # A key below one that is given now, such as model.vocab_size below a model by its name, is known with it.
    given = {**settings, **({"workload.global_batch": 0} if "global_batch" in scenario.get("workload", {}) else {})}
    missing = {key: what for key, what in reading.missing.items() if not _is_given(key, given)}
    assumed = {key: value for key, value in reading.assumed.items() if not _is_given(key, settings)}
    unknown = _unknown_model(scenario.get("model"), missing)
    if unknown and "model" in settings:
        raise InputError(unknown)
    if unknown:
        missing["model"] = "; ".join(unknown)
    if not missing:
        load(scenario)
    said = [*reading.without_counterpart, *said]
    return replace(reading, scenario=scenario, missing=missing, assumed=assumed, without_counterpart=said)


SHARING = ("tensor", "context", "pipeline")
"""Degrees by which several devices work on the same samples."""


def _of_cluster(
    scenario: dict[str, Any], reading: Reading, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The scenario with the batch of the cluster's devices, which are known now, and what that changes."""
    before = scenario.get("workload", {}).get("global_batch")
    if "workload.global_batch" not in settings:
        scenario = with_batch(scenario, reading.samples_per_device, _devices(scenario.get("cluster")))
    batch = scenario.get("workload", {}).get("global_batch")
    said = f"the launch starts another number of devices than the cluster has: workload.global_batch is {batch}"
    return with_tokens(scenario, reading.steps), [] if before in (None, batch) else [f"{said}, not {before}"]


def with_batch(scenario: dict[str, Any], each: int | None, devices: int | None) -> dict[str, Any]:
    """Return a scenario with its global batch: the samples of each replica times the replicas.

    Degrees that are not known leave it open.
    """
    degrees = [scenario.get("plan", {}).get(f"{way}_parallel", 1) for way in SHARING]
    if each is None or not devices or not all(isinstance(degree, int) for degree in degrees):
        return scenario
    return with_value(scenario, "workload.global_batch", each * devices // prod(degrees))


def with_tokens(scenario: dict[str, Any], steps: int | None) -> dict[str, Any]:
    """Return a scenario with the length of a run of so many steps, where its batch says it and nothing else does.

    Of fine-tuning these are samples, whose tokens follow from their lengths, unless rows hold several.
    """
    work = scenario.get("workload", {})
    batch, length = work.get("global_batch"), work.get("sequence_length")
    if steps and isinstance(batch, int) and isinstance(length, int) and not {"total_tokens", "samples"} & {*work}:
        if work.get("task") == "finetune" and not work.get("packing"):
            return with_value(scenario, "workload.samples", steps * batch)
        tokens = steps * batch * sequences_of(work.get("preference", "none")) * length
        return with_value(scenario, "workload.total_tokens", tokens)
    return scenario


def _devices(cluster: Any) -> int | None:
    """The devices of a cluster that is named or written out; None for one that is neither."""
    try:
        return read_cluster(cluster).devices if isinstance(cluster, str | Mapping) else None
    except InputError:
        return None


def _unknown_model(model: Any, missing: Mapping[str, str]) -> list[str]:
    """What is wrong with a model that is named; what is missing of one that is written out is said already."""
    if model is None or any(key.partition(".")[0] == "model" for key in missing):
        return []
    problems: list[str] = []
    with noted(problems):
        resolve_model(model, Path())
    return problems


def _is_given(key: str, settings: Mapping[str, Any]) -> bool:
    return any(key == given or key.startswith(f"{given}.") for given in settings)


def scenario_text(reading: Reading) -> str:
    """Return a reading as YAML that ``sightline predict`` takes, what is missing as comments at its head."""
    import yaml

    head = [f"# {reading.read_as}"]
    head += [f"# {key} is missing: {what}" for key, what in reading.missing.items()]
    head += [f"# {key} is assumed." for key in reading.assumed]
    text = yaml.safe_dump(_plain(reading.scenario), sort_keys=False, allow_unicode=True, width=100)
    return "\n".join([*head, text])


def _plain(value: Any) -> Any:
    """Plain containers, which is all that YAML writes."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
