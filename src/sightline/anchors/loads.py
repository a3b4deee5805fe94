"""Measured loads as anchors: of stored runs, logs of requests, stated means; and as saved anchors keep them."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sightline.errors import InputError, nearest
from sightline.loading import load, to_mapping
from sightline.loading.traces.rows import LARGEST, numbered
from sightline.loading.traces.shapes import IDS
from sightline.parquet import first_line, polars_faults, refuse_deep_file
from sightline.prediction.anchoring.anchor import Anchor
from sightline.prediction.anchoring.timed import WITHOUT_TIME
from sightline.scenario import ServingScenario
from sightline.simulation.anchoring import QUANTITIES, ServedLoad, anchor_of_load, without_rows
from sightline.simulation.load import Requests
from sightline.simulation.outcome import COMPLETED, Outcome

LOG = "requests"
"""Key of ``measured`` that names a log of requests."""
NEEDED = ("arrival_s", "prompt_tokens", "output_tokens")
TIMES = (("first_token_s", "last_token_s"), ("ttft_s", "latency_s"))
"""Columns that say when tokens came: as times of the log's clock, or from a request's arrival."""
OPTIONAL = ("prefix_id", "prefix_tokens", "session_id", "think_s", "priority", "adapter")


def anchor_of_outcome(name: str, scenario: ServingScenario, outcome: Outcome) -> Anchor:
    """Return the anchor of a load that was measured request by request.

    Raises:
        InputError: No request of it was answered.
    """
    done = outcome.status == COMPLETED
    first_s, last_s = (np.where(done, times, np.nan) for times in (outcome.first_token_s, outcome.last_token_s))
    return anchor_of_load(
        ServedLoad(name=name, scenario=scenario, requests=outcome.requests, first_token_s=first_s, last_token_s=last_s)
    )


def anchor_of_figures(
    scenario: ServingScenario, measured: Mapping[str, Any], name: str, folder: Path = Path()
) -> Anchor:
    """Return the anchor of what a scenario says was measured: a log of requests, or mean times.

    Raises:
        InputError: It says neither, or the log cannot be read.
    """
    unused = tuple(key for key in measured if key not in (*QUANTITIES, LOG, *WITHOUT_TIME))
    if LOG in measured:
        return anchor_of_load(_logged(name, scenario, folder / str(measured[LOG])), unused)
    means = {key: _mean(measured[key]) for key in QUANTITIES if key in measured}
    if not any(means.values()):
        raise InputError(
            f"anchor '{name}' has no measured time to learn from; serving learns from {LOG} (a table of requests), or "
            f"from the means of {' and '.join(QUANTITIES)}"
        )
    return anchor_of_load(without_rows(name, scenario, {key: of for key, of in means.items() if of}), unused)


def _mean(value: Any) -> float:
    """The mean of a time that was measured as a mapping; 0 where there is none."""
    return float((value.get("mean") if isinstance(value, Mapping) else value) or 0.0)


def _logged(name: str, scenario: ServingScenario, path: Path) -> ServedLoad:
    table = _table(path)
    columns = _columns(table, path)
    arrival_s = columns["arrival_s"]
    times = next((pair for pair in TIMES if {*pair} <= {*columns}), None)
    if times is None:
        raise InputError(f"{path} has no columns {' or '.join(' and '.join(pair) for pair in TIMES)}")
    since = 0.0 if times is TIMES[0] else arrival_s
    order = np.argsort(arrival_s, kind="stable")
    first_s, last_s = (columns[key] + since for key in times)
    impossible = np.flatnonzero((first_s <= arrival_s) | (last_s < first_s))
    if impossible.size:
        one = f"measured.{LOG}: row {impossible[0] + 1} of '{path}'"
        raise InputError(f"{one} has its first token before it arrives, or its last token before its first")
    shared = {
        key: np.nan_to_num(columns[key]).astype(np.int64) for key in OPTIONAL if key in columns and key != "think_s"
    }
    requests = Requests(
        arrival_s=arrival_s,
        prompt_tokens=columns["prompt_tokens"].astype(np.int64),
        output_tokens=columns["output_tokens"].astype(np.int64),
        think_s=columns.get("think_s", np.zeros(0)),
        **shared,
    )
    return ServedLoad(
        name=name,
        scenario=scenario,
        requests=requests[order],
        first_token_s=first_s[order],
        last_token_s=last_s[order],
    )


def _table(path: Path) -> Any:
    import polars

    try:
        if path.suffix != ".parquet":
            return polars.read_csv(path)
        refuse_deep_file(path)
        return polars.read_parquet(path)
    except FileNotFoundError:
        beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
        raise InputError(f"measured.{LOG}: there is no file '{path}'{nearest(path.name, beside)}") from None
    except polars_faults(OSError) as error:
        reason = first_line(error)
        raise InputError(f"measured.{LOG}: '{path}' cannot be read as CSV or Parquet: {reason}") from None


def _ids(column: Any) -> NDArray[np.int64]:
    """Numbers of a column's words, as those of a trace; whole numbers may be floats beside empty cells."""
    whole = column.fill_nan(None).cast(int, strict=False) if column.dtype.is_float() else column
    return numbered(whole.to_list(), {})


def _columns(table: Any, path: Path) -> dict[str, NDArray[Any]]:
    """The columns that are known, as numbers; NaN where a cell is empty, -1 in columns that tell requests apart."""
    missing = [key for key in NEEDED if key not in table.columns]
    if missing:
        raise InputError(f"measured.{LOG}: '{path}' has no column {', '.join(missing)}; needed: {', '.join(NEEDED)}")
    known = [key for key in (*NEEDED, *OPTIONAL, *(key for pair in TIMES for key in pair)) if key in table.columns]
    columns: dict[str, NDArray[Any]] = {}
    for key in known:
        if key in IDS:
            columns[key] = _ids(table[key])
            continue
        no_numbers = InputError(f"measured.{LOG}: column {key} of '{path}' is not all numbers")
        if table[key].dtype.is_nested():
            raise no_numbers
        try:
            columns[key] = table[key].cast(float).fill_null(float("nan")).to_numpy()
        except Exception as error:
            raise no_numbers from error
        least = -LARGEST if key == "priority" else 0.0
        if not (np.isnan(columns[key]) | ((columns[key] >= least) & (columns[key] <= LARGEST))).all():
            raise InputError(
                f"measured.{LOG}: column {key} of '{path}' has numbers below {least:g} or above {LARGEST:g}"
            )
    unknown = [key for key in NEEDED if np.isnan(columns[key]).any()]
    if unknown:
        raise InputError(f"measured.{LOG}: column {', '.join(unknown)} of '{path}' has empty cells")
    return columns


def to_documents(anchor: Anchor) -> list[dict[str, Any]]:
    """Return what a file holds of an anchor's loads: who answered, and every request."""
    return [_to_document(one) for one in anchor.loads if isinstance(one, ServedLoad)]


def _to_document(one: ServedLoad) -> dict[str, Any]:
    columns = {field.name: getattr(one.requests, field.name) for field in fields(Requests)}
    times = {"first_token_s": one.first_token_s, "last_token_s": one.last_token_s}
    return {
        "name": one.name,
        "scenario": to_mapping(one.scenario),
        "requests": {key: column.tolist() for key, column in columns.items()},
        "times": {key: [None if np.isnan(s) else s for s in column.tolist()] for key, column in times.items()},
        "means": dict(one.means),
        "kv_tokens": one.kv_tokens,
    }


def of_documents(documents: Sequence[Mapping[str, Any]]) -> list[Anchor]:
    """Return the anchors of loads that a file holds."""
    return [_of_document(one) for one in documents]


def _of_document(one: Mapping[str, Any]) -> Anchor:
    scenario = load(dict(one["scenario"]))
    if not isinstance(scenario, ServingScenario):
        raise InputError("a load is of task serve")
    columns: dict[str, Any] = {
        key: np.array(column, np.float64 if key.endswith("_s") else np.int64) for key, column in one["requests"].items()
    }
    first_s, last_s = (
        np.array([np.nan if s is None else s for s in one["times"][key]]) for key in ("first_token_s", "last_token_s")
    )
    return anchor_of_load(
        ServedLoad(
            name=one["name"],
            scenario=scenario,
            requests=Requests(**columns),
            first_token_s=first_s,
            last_token_s=last_s,
            means=one["means"],
            kv_tokens=one["kv_tokens"],
        )
    )
