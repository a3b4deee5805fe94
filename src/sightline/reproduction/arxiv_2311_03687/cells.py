"""The study's tables for the machine at hand: the cells of its grid, each with its scenario.

A processor gets the same grid over the same three models made small.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sightline import catalog
from sightline.measurement.machine import Hardware
from sightline.reproduction.arxiv_2311_03687.settings import FINETUNING, MODELS, PRETRAINING, QUICK, SEQUENCE, step

SUITE = "2311.03687"
PROMPT, OUTPUT = 512, 128
SHARED_CORES = "On a processor the processes share its cores, so one alone has them all."

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
    """Return the study's tables for this hardware; ``quick`` keeps one model and the rows of `QUICK`."""
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
        kept = [row for row in rows if not self.quick or row in QUICK]
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
