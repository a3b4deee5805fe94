"""The grid of arXiv 2311.03687 for the machine at hand: its tables, and the scenario behind every cell.

The study runs Llama-2 7B, 13B and 70B on eight GPUs with DeepSpeed and Megatron-LM and switches techniques on one by
one and together: ZeRO-2 and -3 (Z2, Z3), offload (O), 4-bit weights (Q), recomputation (R), FlashAttention (F), LoRA
(L), QLoRA (QL); N is none of them. A processor gets the same grid over the same three models made small.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sightline import catalog
from sightline.measurement.machine.devices import Hardware

STUDY = "2311.03687"
MODELS = ("llama-2-7b", "llama-2-13b", "llama-2-70b")
SEQUENCE = 350
"""Tokens of a sample: the mean of the Alpaca set."""
PROMPT, OUTPUT = 512, 128

TECHNIQUES: Mapping[str, Mapping[str, Any]] = {
    "N": {},
    "Z2": {"zero_stage": 2},
    "Z3": {"zero_stage": 3},
    "O": {"offload": "optimizer"},
    "Q": {"quantization": "nf4"},
    "R": {"recompute": "full"},
    "F": {"attention": "flash"},
    "L": {"adapter": {"kind": "lora"}},
    "QL": {"adapter": {"kind": "qlora"}},
}
"""What each letter of the study changes in the plan; offload takes the parameters too where ZeRO-3 splits them."""

PRETRAINING = (
    *("N", "Z2", "Z3", "Z2+O", "Z3+O", "Q", "R", "F"),
    *("R+Z2", "R+Z2+O", "R+Z3", "R+Z3+O", "R+Q", "F+R", "F+Z2", "F+Z3", "F+R+Z2", "F+R+Z2+O", "F+R+Z3", "F+R+Z3+O"),
)
FINETUNING = (
    *("L", "L+F", "L+R", "L+Z2", "L+Z3", "L+Z2+O", "L+Z3+O", "L+F+R", "L+F+R+Z2", "L+F+R+Z3", "L+F+R+Z3+O"),
    *("QL", "QL+F", "QL+R", "QL+Z2", "QL+F+R", "QL+F+R+Z2"),
)
QUICK = frozenset(
    {"N", "Z2", "Z3", "Z2+O", "Q", "R", "F", "F+R", "F+R+Z3", "L", "L+F", "L+Z2", "L+F+R", "QL", "QL+F", "QL+F+R"}
)
"""Rows that a quick run keeps: every switch alone, and some together."""

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


def study_tables(hardware: Hardware, *, quick: bool = False) -> list[Table]:
    """Return the study's tables for this hardware; ``quick`` keeps one model and the rows of `QUICK`."""
    grid = _Grid(hardware, quick=quick)
    smallest = grid.models[0]
    by_framework = [
        grid.training("pretrain", framework, smallest, "N", batch=batch, framework=framework)
        for framework in ("deepspeed", "megatron")
        for batch in ((1, 4) if grid.small else (1, 2, 4, 8, 16, 32))
    ]
    on_one_device = [
        grid.training("pretrain", row, smallest, row, batch=2, devices=1, framework="transformers")
        for row in ("N", "F", "R")
    ]
    tables = (
        Table(name="frameworks", title="Pre-training: DeepSpeed and Megatron by batch per device", cells=by_framework),
        Table(
            name="pretraining",
            title="Pre-training with DeepSpeed by technique, batch 1 per device",
            cells=grid.by_technique("pretrain", PRETRAINING, grid.models[:2]),
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
            cells=grid.by_technique("finetune", FINETUNING, grid.models),
        ),
        _generation(grid),
    )
    return [table for table in tables if table.cells]


def _scaling(grid: "_Grid") -> Table:
    """From one device to all: the smallest model, batch 2, quantized."""
    counts = [n for n in (1, 2, 4, 8) if n <= grid.hardware.count]
    cells = [
        grid.training("pretrain", "1 device" if n == 1 else f"{n} devices", grid.models[0], "Q", batch=2, devices=n)
        for n in counts
    ]
    return Table(
        name="scaling",
        title="From one device to all: batch 2 per device, 4-bit weights",
        quantities=("tokens_per_s", "tokens_per_s_per_device"),
        cells=cells if len(counts) > 1 else (),
        notes=("On a processor the processes share its cores, so one alone has them all.",) if grid.small else (),
    )


def _generation(grid: "_Grid") -> Table:
    """Prefill and decode of a prompt with transformers on one device, plain and with 4-bit weights."""
    prompt, output = (tokens // 8 if grid.small else tokens for tokens in (PROMPT, OUTPUT))
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


def plan_of(row: str) -> dict[str, Any]:
    """Return the plan settings of a row such as ``F+R+Z3+O``; attention is eager where F is not on."""
    letters = row.split("+")
    plan: dict[str, Any] = {"zero_stage": 0, "attention": "eager"}
    for letter in letters:
        plan |= TECHNIQUES[letter]
    if "O" in letters and "Z3" in letters:
        plan["offload"] = ["optimizer", "parameters"]
    return plan


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
        self.small = hardware.is_processor
        self.models = MODELS[:1] if quick else MODELS

    def by_technique(self, task: str, rows: Sequence[str], models: Sequence[str]) -> list[Cell]:
        """Every row of techniques with DeepSpeed and batch 1."""
        kept = [row for row in rows if not self.quick or row in QUICK]
        return [self.training(task, row, model, row, batch=1) for row in kept for model in models]

    def training(
        self,
        task: str,
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
        plan = plan_of(techniques) | {"framework": framework, "dtype": "bf16", "micro_batch": batch}
        ranks = devices
        if framework == "megatron":
            # The study splits matrices over all of a server's devices.
            plan |= {"tensor_parallel": devices}
            ranks = 1
        length = SEQUENCE // 5 if self.small else SEQUENCE
        return Cell(
            row=row,
            column=f"{model}, batch {batch}",
            scenario={
                "model": self.model(model),
                "cluster": self.hardware.cluster(devices),
                "workload": {"task": task, "sequence_length": length, "global_batch": batch * ranks},
                "plan": plan,
            },
        )

    def model(self, name: str) -> Any:
        """The model by its name, or made small for a processor."""
        return made_small(name) if self.small else name
