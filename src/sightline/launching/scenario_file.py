"""What was read back of a launch as the text of a scenario file, completed by what the user knows."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sightline.errors import InputError
from sightline.launching.launch import Reading
from sightline.loading import load
from sightline.loading.checks import with_value
from sightline.loading.clusters import read_cluster
from sightline.loading.models import resolve_model

ORDER = ("name", "model", "cluster", "workload", "plan")
"""Parts of a scenario in the order of a file."""


def completed(reading: Reading, settings: Mapping[str, Any]) -> Reading:
    """Return a reading with further values by dotted key, which are no longer missing.

    Raises:
        InputError: Nothing is missing any more, and the scenario breaks rules; a sentence for each.
    """
    scenario = dict(reading.scenario)
    for key, value in settings.items():
        scenario = with_value(scenario, key, value)
    scenario = _with_batch(scenario, reading)
    scenario = {key: scenario[key] for key in (*ORDER, *scenario) if key in scenario}
    # A key below one that is given now, such as model.vocab_size below a model by its name, is known with it.
    given = {**settings, **({"workload.global_batch": 0} if "global_batch" in scenario.get("workload", {}) else {})}
    missing = {key: what for key, what in reading.missing.items() if not _is_given(key, given)}
    assumed = {key: value for key, value in reading.assumed.items() if not _is_given(key, settings)}
    unknown = _unknown_model(scenario.get("model"), missing)
    if unknown and "model" in settings:
        raise InputError(unknown)
    if unknown:
        missing["model"] = "a name of the catalog, a path or a mapping"
    if not missing:
        load(scenario)
    said = [*reading.without_counterpart, *unknown]
    return replace(reading, scenario=scenario, missing=missing, assumed=assumed, without_counterpart=said)


def _with_batch(scenario: dict[str, Any], reading: Reading) -> dict[str, Any]:
    """The scenario with the whole batch, where it follows from the devices, which are known now.

    Degrees that make several devices work on the same samples leave it open.
    """
    each, devices = reading.samples_per_device, _devices(scenario.get("cluster"))
    degrees = (scenario.get("plan", {}).get(f"{way}_parallel", 1) for way in ("tensor", "pipeline", "context"))
    if each is None or devices is None or "global_batch" in scenario["workload"] or set(degrees) != {1}:
        return scenario
    return with_value(scenario, "workload.global_batch", each * devices)


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
    try:
        resolve_model(model, Path())
    except InputError as error:
        return list(error.problems)
    return []


def _is_given(key: str, settings: Mapping[str, Any]) -> bool:
    return any(key == given or key.startswith(f"{given}.") for given in settings)


def scenario_text(reading: Reading) -> str:
    """Return a reading as YAML that ``sightline predict`` takes, what is missing as comments at its head."""
    import yaml

    head = [f"# Read from a launch of {reading.framework}."]
    head += [f"# {key} is missing: {what}" for key, what in reading.missing.items()]
    head += [f"# {key} is assumed." for key in reading.assumed]
    text = yaml.safe_dump(_plain(reading.scenario), sort_keys=False, allow_unicode=True, width=100)
    return "\n".join([*head, text])


def _plain(value: Any) -> Any:
    """Plain containers, which is all that YAML writes."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
