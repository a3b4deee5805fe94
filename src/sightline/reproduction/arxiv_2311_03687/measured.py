"""The study's grid for the machine at hand, measured there with the prediction beside each cell.

A processor gets the same grid over the same three models made small.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from sightline import catalog
from sightline.content import flatten
from sightline.errors import InputError
from sightline.explanation.comparison import Comparison, compare
from sightline.exploration.study_answer import Column
from sightline.loading import load_all
from sightline.measurement.machine import Hardware, hardware_at_hand
from sightline.measurement.measure import measure_scenarios
from sightline.measurement.processes.cases import QUICK, Effort, Settings
from sightline.prediction import predict
from sightline.progress import SILENT, Progress
from sightline.quantities import counted
from sightline.reproduction.arxiv_2311_03687.settings import (
    FINETUNING,
    MODEL,
    MODELS,
    PRETRAINING,
    QUICK_ROWS,
    ROW,
    SEQUENCE,
    step,
)
from sightline.reproduction.outcomes import ReproducedTable, table
from sightline.runs import Store

SUITE = "2311.03687"
PROMPT, OUTPUT = 512, 128
SHARED_CORES = "On a CPU, processes share the cores, so a single process has all of them."

RATE_AND_MEMORY = ("tokens_per_s", "memory_bytes.total")
Level = Literal["end-to-end", "module", "operator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A scenario of the grid and where its result stands."""

    row: str
    column: str
    scenario: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of the study."""

    name: str
    title: str
    cells: Sequence[Cell]
    quantities: Sequence[str] = RATE_AND_MEMORY
    """Result keys that each cell shows."""
    level: Level = "end-to-end"
    notes: Sequence[str] = field(default=())


def suite_tables(hardware: Hardware, *, quick: bool = False) -> list[Table]:
    """Return the study's tables for this hardware; ``quick`` keeps one model and the rows of `QUICK_ROWS`."""
    grid = _Grid(hardware, quick=quick)
    smallest = grid.models[0]
    by_framework = [
        grid.training(framework, smallest, "N", batch=batch, framework=framework)
        for framework in ("deepspeed", "megatron")
        for batch in ((1, 4) if grid.on_processor else (1, 2, 4, 8, 16, 32))
    ]
    on_one_device = [
        grid.training(row, smallest, row, batch=2, devices=1, framework="transformers") for row in ("N", "F", "R")
    ]
    tables = (
        Table(name="frameworks", title="Pre-training: DeepSpeed and Megatron by batch per device", cells=by_framework),
        Table(
            name="pretraining",
            title="Pre-training with DeepSpeed by technique, batch 1 per device",
            cells=grid.by_technique(PRETRAINING, grid.models[:2]),
        ),
        _scaling(grid),
        Table(
            name="modules",
            title="Phases and modules of a step on one device, batch 2",
            quantities=("step_time_s",),
            cells=on_one_device,
            level="module",
        ),
        Table(
            name="finetuning",
            title="Fine-tuning by technique, batch 1 per device",
            cells=grid.by_technique(FINETUNING, grid.models),
        ),
        _generation(grid),
    )
    return [table for table in tables if table.cells]


def _scaling(grid: "_Grid") -> Table:
    """From one device to all: the smallest model, batch 2, quantized."""
    counts = [n for n in (1, 2, 4, 8) if n <= grid.hardware.count]
    cells = [
        grid.training("1 device" if n == 1 else f"{n} devices", grid.models[0], "Q", batch=2, devices=n) for n in counts
    ]
    return Table(
        name="scaling",
        title="From one device to all: batch 2 per device, 4-bit weights",
        quantities=("tokens_per_s", "tokens_per_s_per_device"),
        cells=cells if len(counts) > 1 else (),
        notes=(SHARED_CORES,) if grid.on_processor else (),
    )


def _generation(grid: "_Grid") -> Table:
    """Prefill and decode of a prompt with transformers on one device, plain and with 4-bit weights."""
    prompt, output = (tokens // 8 if grid.on_processor else tokens for tokens in (PROMPT, OUTPUT))
    cells = [
        Cell(
            row=f"{'4-bit' if quantization == 'nf4' else '16-bit'}, batch {batch}",
            column=model,
            scenario={
                "model": grid.model(model),
                "cluster": grid.hardware.cluster(1),
                "workload": {"task": "generate", "batch": batch, "prompt_tokens": prompt, "output_tokens": output},
                "plan": {"framework": "transformers", "dtype": "bf16", "quantization": quantization},
            },
        )
        for quantization in ("none", "nf4")
        for batch in (1, 8)
        for model in grid.models
    ]
    return Table(
        name="generation",
        title=f"Generation on one device: {prompt} tokens in, {output} out",
        quantities=("ttft_s", "tpot_s", "output_tokens_per_s"),
        cells=cells,
    )


def made_small(name: str) -> dict[str, Any]:
    """Return a model of the study at a sixteenth of its width and vocabulary and an eighth of its depth.

    The three keep their order and their kind of attention: 5, 9 and 47 million parameters.
    """
    config = dict(catalog.entry("models", name))
    heads = config["num_attention_heads"] // 8
    return {
        "name": f"{name} made small",
        "model_type": config["model_type"],
        "hidden_size": config["hidden_size"] // 16,
        "intermediate_size": config["intermediate_size"] // 16,
        "num_hidden_layers": config["num_hidden_layers"] // 8,
        "num_attention_heads": heads,
        "num_key_value_heads": max(1, heads * config["num_key_value_heads"] // config["num_attention_heads"]),
        "vocab_size": config["vocab_size"] // 16,
        "max_position_embeddings": config["max_position_embeddings"],
    }


def named(table: Table, cell: Cell) -> Mapping[str, Any]:
    """Return the cell's scenario under a name that says where it stands."""
    return {"name": f"{table.name}: {cell.row}, {cell.column}", **cell.scenario}


class _Grid:
    """Writes scenarios for one machine."""

    def __init__(self, hardware: Hardware, *, quick: bool) -> None:
        self.hardware, self.quick = hardware, quick
        self.on_processor = hardware.is_processor
        self.models = list(MODELS)[:1] if quick else list(MODELS)

    def by_technique(self, rows: Sequence[str], models: Sequence[str]) -> list[Cell]:
        """Every row of techniques with DeepSpeed and batch 1."""
        kept = [row for row in rows if not self.quick or row in QUICK_ROWS]
        return [self.training(row, model, row, batch=1) for row in kept for model in models]

    def training(
        self,
        row: str,
        model: str,
        techniques: str,
        *,
        batch: int,
        devices: int | None = None,
        framework: str = "deepspeed",
    ) -> Cell:
        """A step of training, on all devices where their number is not said."""
        devices = devices or self.hardware.count
        return Cell(
            row=row,
            column=f"{model}, batch {batch}",
            scenario=step(
                self.model(model),
                self.hardware.cluster(devices),
                techniques,
                batch=batch,
                devices=devices,
                framework=framework,
                sequence_length=SEQUENCE // 5 if self.on_processor else SEQUENCE,
            ),
        )

    def model(self, name: str) -> Any:
        """The model by its name, or made small for a processor."""
        return made_small(name) if self.on_processor else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A cell with its answers."""

    cell: Cell
    status: str
    """How the run ended: ok, out_of_memory, unsupported, timeout, crashed, interrupted."""
    reason: str = ""
    measured: Mapping[str, float] = field(default_factory=dict)
    """Result keys, nested ones dotted."""
    predicted: Mapping[str, float] = field(default_factory=dict)
    """The same of the prediction; empty where it refuses."""
    refused: str = ""
    """Why nothing is predicted."""
    shimmed: bool = False
    """Ran with stand-ins for what the machine lacks: shows that it works, not how fast."""
    comparison: Comparison | None = None
    """Phases and modules, of cells measured at that level."""

    def figures(self, key: str) -> tuple[float | None, float | None, float | None]:
        """Return a quantity measured and predicted, and the second over the first; None where one is not to be had."""
        measured, predicted = self.measured.get(key), self.predicted.get(key)
        return measured, predicted, predicted / measured if measured and predicted is not None else None


MeasuredSuite = Sequence[tuple[Table, Sequence[Answered]]]


def measured_suite(
    hardware: Hardware, store: Store, *, quick: bool = False, rerun: bool = False, progress: Progress = SILENT
) -> MeasuredSuite:
    """Return the study's tables with the answers to their cells, measured on this hardware and predicted.

    Every cell is stored as it ends, so that a suite that was stopped goes on where it was. ``quick`` keeps one model
    and few techniques, with few steps of each.
    """
    tables = suite_tables(hardware, quick=quick)
    cells = [(one, cell) for one in tables for cell in one.cells]
    found: dict[str, list[Answered]] = {one.name: [] for one in tables}
    for one, cell in progress.over(cells, "measuring"):
        found[one.name].append(_answered(one, cell, store, quick=quick, rerun=rerun))
    return [(one, found[one.name]) for one in tables if found[one.name]]


def tables_at_hand(store: Store, *, small: bool, progress: Progress) -> list[ReproducedTable]:
    """Return the study's tables measured on the machine at hand: a row for each figure of each cell.

    Raises:
        InputError: PyTorch is missing, its devices are unknown, or not one cell could be measured.
    """
    suite = measured_suite(hardware_at_hand(), store, quick=small, progress=progress)
    answers = [answered for _, cells in suite for answered in cells]
    if answers and not _measured(answers):
        why = next((one.reason for one in answers if one.reason), "no run succeeded")
        raise InputError([f"nothing could be measured on this machine: {why}"])
    return [_table(one, cells) for one, cells in suite]


def _table(one: Table, cells: Sequence[Answered]) -> ReproducedTable:
    """A row for each figure; a reason of several cells is told once, above them."""
    told = {why: ended for why, ended in _endings_by_reason(cells).items() if len(ended) > 1}
    reading = [
        f"{counted(len(ended), 'case')}, {' or '.join(dict.fromkeys(ended))}: {why}" for why, ended in told.items()
    ]
    return table(
        f"measured-{one.name}",
        one.title,
        _rows(one, cells),
        about={**_ABOUT, "reason": Column(label="why", values=dict.fromkeys(told, "see above"))},
        reading=(*one.notes, *reading),
        status="measured" if _measured(cells) else "not measured",
    )


def _endings_by_reason(cells: Sequence[Answered]) -> Mapping[str, Sequence[str]]:
    """How each case of a reason ended, in words."""
    endings = defaultdict[str, list[str]](list)
    for answered in cells:
        if why := _why(answered):
            endings[why].append(_ended(answered))
    return endings


def _measured(cells: Sequence[Answered]) -> bool:
    """Whether any cell has a measured figure, or ran out of memory, which is an answer too."""
    return any(one.measured or one.status == "out_of_memory" for one in cells)


_NOT_INSTALLED = "not installed"
_ABOUT: Mapping[str, Column] = {
    "row": ROW,
    "column": MODEL,
    "quantity": Column(label="quantity"),
    "measured": Column(label="measured"),
    "predicted": Column(label="predicted"),
    "ratio": Column(label="predicted / measured"),
    "status": Column(label="outcome"),
    "reason": Column(label="why"),
}


def _rows(one: Table, cells: Sequence[Answered]) -> Iterator[dict[str, Any]]:
    for answered in cells:
        for key in one.quantities:
            figures = zip(("measured", "predicted", "ratio"), answered.figures(key), strict=True)
            known = {name: value for name, value in figures if value is not None}
            ended = {"status": _ended(answered), "reason": _why(answered)}
            yield {"row": answered.cell.row, "column": answered.cell.column, "quantity": key, **known, **ended}


def _ended(answered: Answered) -> str:
    """How a run ended, in words."""
    is_missing = answered.status == "unsupported" and _NOT_INSTALLED in answered.reason
    return _NOT_INSTALLED if is_missing else answered.status + " (with a substitute)" * answered.shimmed


def _why(answered: Answered) -> str:
    """Why nothing was measured, or else why nothing is predicted."""
    return answered.reason or answered.refused


def _answered(one: Table, cell: Cell, store: Store, *, quick: bool, rerun: bool) -> Answered:
    """A cell, measured and predicted; at module level the two are also compared.

    A cell that an earlier run finished is not measured again, and one that cannot run says why.
    """
    levels = tuple(dict.fromkeys(("end-to-end", one.level)))
    settings = Settings(quick=quick, effort=replace(QUICK if quick else Effort(), levels=levels))
    try:
        scenarios = load_all([dict(named(one, cell))])
        (found,) = measure_scenarios(scenarios, store, settings, suite=SUITE, rerun=rerun)
    except InputError as error:
        return Answered(cell=cell, status="unsupported", reason="; ".join(error.problems))
    run, (predicted, refused) = found.run, _predicted(found.scenario)
    done = run.status == "ok"
    compared = done and predicted and one.level != "end-to-end"
    return Answered(
        cell=cell,
        status=run.status,
        reason=run.reason,
        measured=flatten(run.result) if done else {},
        predicted=predicted,
        refused=refused,
        shimmed=done and bool(run.result["measurement"].get("shimmed")),
        comparison=compare(run.id, "predicted", levels=("phase", "module"), store=store.place) if compared else None,
    )


def _predicted(scenario: Any) -> tuple[dict[str, Any], str]:
    """The prediction's figures; none where it is refused, and why."""
    try:
        return flatten(predict(scenario).to_dict()), ""
    except InputError as error:
        return {}, "; ".join(error.problems)


def suite_to_list(suite: MeasuredSuite) -> list[dict[str, Any]]:
    """Return the suite for ``--json``: a mapping per table, its cells with status, measured and predicted figures."""
    return [
        {
            "table": table.name,
            "title": table.title,
            "cells": [
                {
                    "row": a.cell.row,
                    "column": a.cell.column,
                    "status": a.status,
                    "reason": a.reason,
                    "shimmed": a.shimmed,
                    "measured": {key: a.measured.get(key) for key in table.quantities},
                    "predicted": {key: a.predicted.get(key) for key in table.quantities},
                    "scenario": a.cell.scenario,
                }
                for a in cells
            ],
        }
        for table, cells in suite
    ]
