"""Answers as CSV: a line per scenario, plan, row or case, dotted keys as headers."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isnan
from typing import TYPE_CHECKING, Any

from sightline.answers import labels
from sightline.content import flatten
from sightline.loading.written import workload_and_plan
from sightline.profile import Profile
from sightline.profile.results import answer_to_dict, stamped
from sightline.quantities import as_json
from sightline.scenario import OperatorScenario

if TYPE_CHECKING:
    from sightline.explanation.answer import Explanation
    from sightline.explanation.comparison import Comparison
    from sightline.exploration.study_answer import StudyAnswer
    from sightline.planning.plan_answer import PlanAnswer
    from sightline.prediction.roofline_table import RooflineTable
    from sightline.reproduction.outcomes import Reproduction
    from sightline.validation.coverage import Cell

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
    header = list(dict.fromkeys(key for keys in dict.fromkeys(map(tuple, lines)) for key in keys))
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([header, *([line.get(key) for key in header] for line in lines)])
    return buffer.getvalue()


def line_of(profile: Profile) -> dict[str, Any]:
    """Return one result under dotted keys."""
    result = {**stamped({"source": profile.source}), **answer_to_dict(profile)}
    # A table of its own.
    result.pop("curve", None)
    model = {} if isinstance(profile.scenario, OperatorScenario) else {"model": profile.scenario.model.name}
    line: dict[str, Any] = {
        "name": labels.title(profile.scenario),
        **model,
        "cluster": " + ".join(profile.scenario.cluster.stated),
    }
    line |= {key: _typed(as_json(value)) for key, value in flatten(workload_and_plan(profile.scenario)).items()}
    for key, value in flatten(result).items():
        if key == "anchor":
            line[key] = " | ".join(f"{one['from']}: {one['sentence']}" for one in value)
        else:
            line[key] = " | ".join(value) if key in _LISTS else cell_of(value)
    return line


def _typed(value: Any) -> Any:
    """A value of the scenario as tables of scenarios have it: read again, it is the same."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list) else cell_of(value)


def cell_of(value: Any) -> Any:
    """Return a value as a cell has it: yes and no as in JSON, a list as its words; nothing for NaN."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    return "" if isinstance(value, float) and isnan(value) else value


def csv_of(spec: dict[str, Any]) -> str:
    """Return the numbers that a chart draws as lines of CSV under their names."""
    from sightline.charts.rendering import data_of

    return csv_text([{key: cell_of(value) for key, value in row.items()} for row in data_of(spec)])


def plans_to_csv(answer: "PlanAnswer") -> str:
    """Return a line per plan: its place, its scenario and its results under dotted keys."""
    return csv_text(
        [
            {
                "rank": one.rank,
                "tied": str(one.tied).lower(),
                "better": one.better,
                "launchable": str(one.launchable).lower(),
                "tight": str(one.profile.tight).lower(),
                "pareto": str(position in answer.pareto).lower(),
                **line_of(one.profile),
                **one.figures,
            }
            for position, one in enumerate(answer.plans)
        ]
    )


def study_to_csv(answer: "StudyAnswer") -> str:
    """Return every row of a study as CSV text under its columns' names, in SI units; absent values are empty cells."""
    if not len(answer):
        return ",".join(answer.columns) + "\n"
    return csv_text([{name: cell_of(value) for name, value in row.items()} for row in answer.rows])


def explained_to_csv(explanation: "Explanation") -> str:
    """Return the rows; of what has none, such as a load, its phases."""
    if explanation.rows:
        return csv_text([as_json(asdict(row)) for row in explanation.rows])
    return csv_text([{"phase": name, "time_s": value} for name, value in explanation.phases.items()])


def comparison_to_csv(comparison: "Comparison") -> str:
    """Return a comparison, a line per row; the interval's ends are the columns low and high."""
    return csv_text(comparison.records())


def decisions_to_csv(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the decisions of each source and of all, figures under dotted keys."""
    return csv_text(list(map(flatten, found)))


def coverage_to_csv(cells: "Sequence[Cell]") -> str:
    """Return a line per cell."""
    from sightline.validation.coverage import cell_to_dict

    return csv_text([cell_to_dict(cell) for cell in cells])


def rooflines_to_csv(named: "Sequence[tuple[str, RooflineTable]]") -> str:
    """Return a line per matmul under its scenario's name and device."""
    from sightline.prediction.roofline_table import row_to_dict

    return csv_text(
        [
            {"name": name, "device": table.scenario.cluster.device.name, **row_to_dict(row)}
            for name, table in named
            for row in table.rows
        ]
    )


def reproduced_to_csv(answer: "Reproduction") -> str:
    """Return a line for each finding; where a table alone was asked for, its rows."""
    if answer.tables and not answer.outcomes:
        return study_to_csv(answer.tables[0].answer)
    from sightline.reproduction.outcomes import reproduction_to_dict

    return csv_text([_csv_line(line) for line in reproduction_to_dict(answer)["findings"]])


def _csv_line(finding: Mapping[str, Any]) -> dict[str, Any]:
    """A finding as JSON has it, its interpretations as how many there are and how many of them hold."""
    interpretations = finding["interpretations"]
    return {
        **{key: cell_of(value) for key, value in finding.items()},
        "interpretations": len(interpretations),
        "interpretations_that_hold": sum(one["reproduced"] for one in interpretations),
    }
