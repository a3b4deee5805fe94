"""The grid of arXiv 2311.03687 for the machine at hand: its tables, and the scenario behind every cell.

The study runs Llama-2 7B, 13B and 70B on eight GPUs with DeepSpeed and Megatron-LM and switches techniques on one by one
and together: ZeRO-2 and -3 (Z2, Z3), offload (O), 4-bit weights (Q), recomputation (R), FlashAttention (F), LoRA (L),
QLoRA (QL); N is none of them. A processor gets the same grid over the same three models made small.
"""

from collections.abc import Iterator, Mapping, Sequence
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
    quantities: Sequence[str]
    """Result keys that each cell shows."""
    cells: Sequence[Cell]
    level: Level = "end-to-end"
    notes: Sequence[str] = field(default=())


def study_tables(hardware: Hardware, *, quick: bool = False) -> list[Table]:
    """Return the study's tables for this hardware; ``quick`` keeps one model and the rows of `QUICK`."""
    grid = _Grid(hardware, quick=quick)
    made = (grid.frameworks, grid.pretraining, grid.scaling, grid.modules, grid.finetuning, grid.generation)
    return [table for make in made if (table := make()).cells]


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
        self._hardware = hardware
        self._small = hardware.is_processor
        self._models = MODELS[:1] if quick else MODELS
        self._quick = quick
        self._sequence = SEQUENCE // 5 if self._small else SEQUENCE
        self._batches = (1, 4) if self._small else (1, 2, 4, 8, 16, 32)

    def frameworks(self) -> Table:
        """DeepSpeed against Megatron on the smallest model by batch, all devices and no technique."""
        cells = [
            self._training("pretrain", framework, self._models[0], "N", batch=batch, framework=framework)
            for framework in ("deepspeed", "megatron")
            for batch in self._batches
        ]
        title = "Pre-training: DeepSpeed and Megatron by batch per device"
        return Table(name="frameworks", title=title, quantities=RATE_AND_MEMORY, cells=cells)

    def pretraining(self) -> Table:
        """Every row of techniques with DeepSpeed, batch 1 and the study's next ones."""
        cells = self._by_technique("pretrain", PRETRAINING, self._models[:2])
        title = "Pre-training with DeepSpeed by technique, batch 1 per device"
        return Table(name="pretraining", title=title, quantities=RATE_AND_MEMORY, cells=cells)

    def scaling(self) -> Table:
        """From one device to all: the smallest model, batch 2, quantized."""
        counts = [n for n in (1, 2, 4, 8) if n <= self._hardware.count]
        cells = [
            self._training(
                "pretrain", "1 device" if n == 1 else f"{n} devices", self._models[0], "Q", batch=2, devices=n
            )
            for n in counts
        ]
        return Table(
            name="scaling",
            title="From one device to all: batch 2 per device, 4-bit weights",
            quantities=("tokens_per_s", "tokens_per_s_per_device"),
            cells=cells if len(counts) > 1 else (),
            notes=("On a processor the processes share its cores, so one alone has them all.",) if self._small else (),
        )

    def modules(self) -> Table:
        """Phases and modules of one step: the smallest model, batch 2, with and without FlashAttention."""
        cells = [
            self._training("pretrain", row, self._models[0], row, batch=2, devices=1, framework="transformers")
            for row in ("N", "F", "R")
        ]
        title = "Phases and modules of a step on one device, batch 2"
        return Table(name="modules", title=title, quantities=("step_time_s",), cells=cells, level="module")

    def finetuning(self) -> Table:
        """LoRA and QLoRA with every row of techniques, batch 1."""
        cells = self._by_technique("finetune", FINETUNING, self._models)
        title = "Fine-tuning by technique, batch 1 per device"
        return Table(name="finetuning", title=title, quantities=RATE_AND_MEMORY, cells=cells)

    def generation(self) -> Table:
        """Prefill and decode of a prompt with transformers on one device, plain and with 4-bit weights."""
        shrink = 8 if self._small else 1
        cells = [
            self._generation(model, quantization, batch, PROMPT // shrink, OUTPUT // shrink)
            for quantization in ("none", "nf4")
            for batch in (1, 8)
            for model in self._models
        ]
        return Table(
            name="generation",
            title=f"Generation on one device: {PROMPT // shrink} tokens in, {OUTPUT // shrink} out",
            quantities=("ttft_s", "tpot_s", "output_tokens_per_s"),
            cells=cells,
        )

    def _generation(self, model: str, quantization: str, batch: int, prompt: int, output: int) -> Cell:
        return Cell(
            row=f"{'4-bit' if quantization == 'nf4' else '16-bit'}, batch {batch}",
            column=model,
            scenario={
                "model": self._model(model),
                "cluster": self._hardware.cluster(1),
                "workload": {"task": "generate", "batch": batch, "prompt_tokens": prompt, "output_tokens": output},
                "plan": {"framework": "transformers", "dtype": "bf16", "quantization": quantization},
            },
        )

    def _by_technique(self, task: str, rows: Sequence[str], models: Sequence[str]) -> list[Cell]:
        return [self._training(task, row, model, row, batch=1) for row in self._rows(rows) for model in models]

    def _rows(self, rows: Sequence[str]) -> Iterator[str]:
        return (row for row in rows if not self._quick or row in QUICK)

    def _training(
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
        devices = devices or self._hardware.count
        plan = plan_of(techniques) | {"framework": framework, "dtype": "bf16", "micro_batch": batch}
        ranks = devices
        if framework == "megatron":
            # The study splits matrices over all of a server's devices.
            plan |= {"tensor_parallel": devices}
            ranks = 1
        return Cell(
            row=row,
            column=f"{model}, batch {batch}",
            scenario={
                "model": self._model(model),
                "cluster": self._hardware.cluster(devices),
                "workload": {"task": task, "sequence_length": self._sequence, "global_batch": batch * ranks},
                "plan": plan,
            },
        )

    def _model(self, name: str) -> Any:
        return made_small(name) if self._small else name
