"""Predictions as CSV: a line per scenario, dotted keys as headers."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from sightline.profile import Profile
from sightline.profile.results import flatten
from sightline.report import labels
from sightline.scenario import OperatorScenario

_SCENARIO_KEYS = ("workload.", "plan.")
_LISTS = ("advice", "warnings")


def to_csv(profiles: Sequence[Profile], cells: Sequence[Mapping[str, Any]] = ()) -> str:
    """Return the results as CSV text: name, model and cluster, the workload, the plan, then the result keys.

    What a sweep (``cells``) changed beyond those is a column too, as it was typed.
    """
    lines = [line_of(profile) for profile in profiles]
    if not cells:
        return csv_text(lines)
    swept = ({k: cell_of(v) for k, v in cell.items() if k not in lines[0]} for cell in cells)
    return csv_text([{"name": line["name"], **more, **line} for line, more in zip(lines, swept, strict=True)])


def csv_text(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return mappings as CSV text under all their keys; absent and unknown values are empty cells."""
    header = list(dict.fromkeys(key for line in lines for key in line))
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, header, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return buffer.getvalue()


def line_of(profile: Profile) -> dict[str, Any]:
    """Return one result under dotted keys."""
    result = profile.to_dict()
    scenario = flatten(result.pop("scenario"))
    # A table of its own.
    result.pop("curve", None)
    model = {} if isinstance(profile.scenario, OperatorScenario) else {"model": profile.scenario.model.name}
    line: dict[str, Any] = {
        "name": labels.title(profile.scenario),
        **model,
        "cluster": " + ".join(profile.scenario.cluster.stated),
    }
    line |= {key: _typed(value) for key, value in scenario.items() if key.startswith(_SCENARIO_KEYS)}
    for key, value in flatten(result).items():
        if key == "anchor":
            line[key] = " | ".join(f"{one['from']}: {one['sentence']}" for one in value)
        else:
            line[key] = " | ".join(value) if key in _LISTS else cell_of(value)
    return line


def _typed(value: Any) -> Any:
    """A value of the scenario as tables of scenarios have it: read again, it is the same."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | list) else value


def cell_of(value: Any) -> Any:
    """Return a value as a cell has it: yes and no as in JSON, a list as its words."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return " ".join(str(item) for item in value)
    return value
