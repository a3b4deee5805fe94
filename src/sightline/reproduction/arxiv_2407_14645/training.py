"""Training times against published ones (B1), and memory by recomputation (B3)."""

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from sightline.exploration.answer import Column
from sightline.quantities import GIB, percent
from sightline.reproduction.answer import ReproducedTable, table
from sightline.reproduction.arxiv_2407_14645.pictures import against_published
from sightline.reproduction.asking import Ask, Findings, Tables
from sightline.reproduction.open_settings import OpenSetting, taken
from sightline.reproduction.outcome import Interpretation
from sightline.validation.suite import Answer

ALL_SIZES, SCALED = "arXiv 2205.05198, table 5", "arXiv 2104.04473, table 1"
TIMES = {ALL_SIZES: "korthikanti-2022-table5", SCALED: "narayanan-2021-table1"}
"""Suites of published step times of GPT on A100s."""
PUBLISHED_TIMES: OpenSetting[Sequence[str]] = OpenSetting(
    name="published step times",
    choices={ALL_SIZES: [ALL_SIZES], f"{ALL_SIZES} and {SCALED}": [ALL_SIZES, SCALED]},
)
MEMORY_SUITES = ("korthikanti-2022-fig1", "korthikanti-2022-fig7")
"""Suites of published activations by recomputation."""


def b1(ask: Ask) -> list[Interpretation]:
    """Return the mean error of step times: over the table with all four sizes, and over both tables."""
    errors = {source: [answer.error for answer in _answers(ask, suite)] for source, suite in TIMES.items()}
    interpretations = []
    for tables in PUBLISHED_TIMES:
        sizes = [abs(error) for source in tables.value for error in errors[source]]
        mean, most = (percent(size, 1) for size in (fmean(sizes), max(sizes)))
        said = f"{len(sizes)} steps are predicted with errors of {mean} in the mean, {most} at most."
        interpretations.append(Interpretation(choices=taken(tables), values=[fmean(sizes)], sentence=said))
    return interpretations


def b3(ask: Ask) -> list[Interpretation]:
    """Return the errors of activations by recomputation; none where their order is another."""
    errors = [abs(answer.error) for suite in MEMORY_SUITES for answer in _answers(ask, suite)]
    study = ask.study("memory-footprint")
    by_model: dict[str, dict[str, float]] = {}
    for row in study.rows:
        by_model.setdefault(row["name"], {})[row["technique"]] = row["activations_bytes"]
    in_order = all(of["full"] < of["selective, sequence-parallel"] < of["none"] for of in by_model.values())
    said = ", ".join(
        f"{name} {' < '.join(f'{of[how] / GIB:.1f}' for how in ('full', 'selective, sequence-parallel', 'none'))}"
        for name, of in by_model.items()
    )
    sentence = (
        f"The largest of {len(errors)} errors is {percent(max(errors), 1)}; GiB of full, selective (with sequence "
        f"parallelism) and no recomputation: {said}."
    )
    return [Interpretation(values=errors if in_order else [None], sentence=sentence)]


def times(ask: Ask) -> ReproducedTable:
    """Return every published step time beside ours."""
    about = {
        "source": Column(label="source"),
        "parameters": Column(label="parameters"),
        "devices": Column(label="A100s"),
        "recompute": Column(label="recomputation"),
        "measured_s": Column(label="published", unit="s"),
        "predicted_s": Column(label="predicted", unit="s"),
        "error": Column(label="error", unit="share"),
        "split": Column(label="part", values={"fit": "fitted on", "test": "not fitted on"}),
    }
    rows = [
        row
        for source, suite in TIMES.items()
        for row in sorted(_rows(ask, source, suite), key=lambda one: (one["parameters"], one["recompute"]))
    ]
    return table(
        "training-times",
        "Training times of GPT on A100s",
        rows,
        about=about,
        figures=[against_published("Step times of GPT on A100s", series="recompute")],
        status="published",
    )


def _rows(ask: Ask, source: str, suite: str) -> Iterator[dict[str, Any]]:
    for answer in _answers(ask, suite):
        asked = answer.case.scenario
        yield {
            "source": source,
            "parameters": float(ask.profile(asked).scenario.model.parameters),
            "devices": int(str(asked["cluster"]["devices"]).split("x")[0]),
            "recompute": asked["plan"]["recompute"],
            "measured_s": answer.case.measured,
            "predicted_s": answer.predicted,
            "error": answer.error,
            "split": answer.case.split,
        }


def memory(ask: Ask) -> ReproducedTable:
    """Return the study of memory by recomputation."""
    return ReproducedTable(id="memory", answer=ask.study("memory-footprint"), status="published")


def _answers(ask: Ask, suite: str) -> list[Answer]:
    """The answered cases of a suite, of both its parts."""
    return [answer for result in ask.suite(suite) for answer in result.answers if answer.predicted is not None]


FINDINGS: Findings = {"B1": b1, "B3": b3}
TABLES: Tables = {"training-times": times, "memory": memory}
