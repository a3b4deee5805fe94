"""Lines of training's tables: several measurements in one, swapped columns, Galvatron's strategies and keys."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sightline.validation.cells import Cells, require
from sightline.validation.rows import LeftOutError, Row

SPEED, PRECISION = "Tokens / sec / GPU", "Precision"
UNNAMED = ("first", "second")
"""What the two values of a line without a precision are called."""

_PAIR = re.compile(r"(.*?)\s*\((.*)\)")


LOGGED, DERIVED = "logged_step_time_s", "derived_step_time_s"


def megatron_bridge(cells: Cells) -> Iterator[Cells]:
    """Yield the measurements of a line, each with its model, system, precision and speed in columns of their own.

    Columns of NVIDIA's Megatron-Bridge performance tables moved from release to release. Older ones print the system in
    the model's place, and two precisions in one line: ``FP8-CS (FP8-MX)`` next to ``31508 (29789)``. The pair of
    release 25.09 is not named.
    """
    straight = dict(cells)
    if cells["model"].startswith("System: "):
        straight |= {"System": straight["model"].removeprefix("System: "), "model": cells["Model"]}
    speeds = _parts(cells[SPEED])
    precisions = _parts(cells[PRECISION])
    if not cells[PRECISION] and len(speeds) > 1:
        precisions = UNNAMED
    for precision, speed in zip(precisions, speeds, strict=False):
        yield {**straight, PRECISION: precision, SPEED: speed}


def _parts(text: str) -> tuple[str, ...]:
    """A value and the one in parentheses behind it, if there is one."""
    pair = _PAIR.fullmatch(text)
    return (text,) if pair is None else pair.groups()


def mlperf_training(cells: Cells) -> Iterator[Cells]:
    """Yield a line of MLPerf Training's logs with its step time in the logged column.

    Where a step's time was not logged it follows from the throughput, which includes some time between steps.
    """
    yield {**cells, LOGGED: cells[LOGGED] or cells[DERIVED]}


_STRATEGY = re.compile(r"(\d+)_(\d+)_(\d+)((?:_(?:c|vtp|sp))*)")
_KEY = re.compile(r"layernum\[(\d+)\]_bsz(\d+)_seq(\d+)_rank(\d+)_(ms|act|act_peak)")
MEASURED = {"ms": "state_bytes", "act": "kept_bytes", "act_peak": "rise_bytes"}


def galvatron(cells: Cells, spec: Mapping[str, Any], where: str) -> Row:
    """Return a line of Galvatron's memory profile under our keys; ``tokens_per_sample`` says how long samples were.

    A line is a strategy ``<pipeline>_<tensor>_<data>`` with marks - ``c``: every layer recomputed, ``vtp``: embedding
    and head cut over the tensor-parallel ranks, ``sp``: sequence parallelism - and a key such as
    ``layernum[2]_bsz8_seq2048_rank0_act``: ``ms`` is what rank 0 or the last one held after the backward pass, ``act``
    what its forward pass left more than there was before, ``act_peak`` how far both passes rose above ``ms``. All are
    what PyTorch's allocator counted, in MiB.
    """
    require(cells, ("strategy_pp_tp_dp", "key", "memory_mb"), where)
    strategy, key = _STRATEGY.fullmatch(cells["strategy_pp_tp_dp"]), _KEY.fullmatch(cells["key"])
    if strategy is None or key is None:
        raise LeftOutError("calculated from other lines")
    pipeline, tensor, data = (int(degree) for degree in strategy.groups()[:3])
    marks = strategy[4].split("_")
    layers, batch, rank = int(key[1]), int(key[2]), int(key[4])
    whole = tensor > 1 and "vtp" not in marks
    return {
        "devices": pipeline * tensor * data,
        "plan.pipeline_parallel": pipeline,
        "plan.tensor_parallel": tensor,
        "plan.data_parallel": data,
        "plan.sequence_parallel": "sp" in marks and tensor > 1,
        "plan.recompute": "full" if "c" in marks else "none",
        "plan.vocabulary_parallel": not whole,
        # Rows are split by the words that the catalog had for this when the split was drawn.
        **({"vocabulary": "whole-vocabulary"} if whole else {}),
        "plan.micro_batch": batch // data,
        "model.num_hidden_layers": layers,
        "workload.global_batch": batch,
        "workload.sequence_length": spec["tokens_per_sample"],
        "stage": 0 if rank == 0 else -1,
        f"measured.{MEASURED[key[5]]}": float(cells["memory_mb"]) * 2**20,
    }
