"""Files into sides: results as ``--json`` and ``--csv`` write them, runs as ``runs show --json`` does, scenarios."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isclose
from pathlib import Path
from typing import Any, TypeVar

from sightline.errors import InputError
from sightline.explanation.side import Side
from sightline.explanation.side_reading import is_result, side_of_profile, side_of_result
from sightline.loading import load
from sightline.loading.input.dotted_keys import with_value
from sightline.loading.input.sources import cell_value, read_source
from sightline.prediction import predict

_One = TypeVar("_One")
_SCENARIO_KEYS = ("name", "model", "cluster", "workload", "plan")


def side_of_file(path: Path, number: int | None, name: str) -> Side:
    """Return one of the results of a file, or the prediction of one of its scenarios, counted from 1.

    Raises:
        InputError: It holds neither, or several and no number says which.
    """
    documents = read_source(path).documents
    first = documents[0].mapping
    if isinstance(first, Mapping) and (is_result(first) or _is_run(first)):
        return _side_of_result(_chosen([document.mapping for document in documents], number, name), name)
    loaded = load(path)
    scenario = _chosen(loaded if isinstance(loaded, list) else [loaded], number, name)
    return side_of_profile(predict(scenario), name)


def predicted(scenario: Mapping[str, Any], name: str, whose: str) -> Side:
    """Return the prediction of a scenario's mapping; ``whose`` it is stands in front of complaints."""
    try:
        loaded = load(dict(scenario))
    except InputError as error:
        raise InputError([f"the scenario of {whose}: {problem}" for problem in error.problems]) from None
    return side_of_profile(predict(_chosen(loaded if isinstance(loaded, list) else [loaded], None, whose)), name)


def _chosen(found: Sequence[_One], number: int | None, name: str) -> _One:
    if number is None and len(found) > 1:
        raise InputError(f"'{name}' holds {len(found)}; compare takes one of them, such as {name}#1")
    if number is not None and not 1 <= number <= len(found):
        raise InputError(f"there is no '{name}': the file holds {len(found)}")
    return found[(number or 1) - 1]


def _is_run(mapping: Mapping[str, Any]) -> bool:
    return isinstance(mapping.get("result"), Mapping) and {"id", "scenario"} <= mapping.keys()


def _side_of_result(mapping: Mapping[str, Any], name: str) -> Side:
    try:
        return _read(mapping, name)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise InputError(f"'{name}' is no result as predict and measure write it: {error}") from error


def _read(mapping: Mapping[str, Any], name: str) -> Side:
    if _is_run(mapping):
        of = {"scenario": mapping["scenario"], "rows": mapping.get("rows") or ()}
        return side_of_result(mapping["result"], name, **of, environment=mapping.get("environment"))
    whole = _unflattened(mapping)
    scenario = whole.get("scenario") or {key: whole[key] for key in _SCENARIO_KEYS if key in whole}
    return _with_table(side_of_result(whole, name, scenario=scenario))


def _unflattened(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A line of CSV with its dotted keys as nested mappings and its pairs as numbers; JSON as it is."""
    whole: dict[str, Any] = {}
    for key, value in mapping.items():
        whole = with_value(whole, key, value)
    pairs = whole.get("interval")
    if isinstance(pairs, Mapping):
        ends = {key: value.split() if isinstance(value, str) else value for key, value in pairs.items()}
        whole["interval"] = {key: [cell_value(str(end)) for end in value] for key, value in ends.items()}
    return whole


def _with_table(side: Side) -> Side:
    """A prediction's file has no table: its scenario's is taken where predicting it again gives the same figures."""
    if side.is_measured or side.cells or not side.scenario:
        return side
    try:
        again = predicted(side.scenario, side.name, side.name)
    except InputError:
        return side
    key = side.kind.whole
    same = again.kind is side.kind and isclose(again.figures[key], side.figures[key], rel_tol=1e-6)
    return replace(side, cells=again.cells) if same else side
