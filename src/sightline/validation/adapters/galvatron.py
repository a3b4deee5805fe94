"""Lines of Galvatron's memory profile, whose keys hold the plan, the layers and what was read.

A line is a strategy ``<pipeline>_<tensor>_<data>`` with marks - ``c``: every layer recomputed, ``vtp``: embedding and
head cut over the tensor-parallel ranks, ``sp``: sequence parallelism - and a key such as
``layernum[2]_bsz8_seq2048_rank0_act``: ``ms`` is what rank 0 or the last one held after the backward pass, ``act`` what
its forward pass left more than there was before, ``act_peak`` how far both passes rose above ``ms``. All are what
PyTorch's allocator counted, in MiB.
"""

import re
from collections.abc import Mapping
from typing import Any

from sightline.errors import InputError
from sightline.validation.cells import Cells
from sightline.validation.rows import LeftOutError, Row

_STRATEGY = re.compile(r"(\d+)_(\d+)_(\d+)((?:_(?:c|vtp|sp))*)")
_KEY = re.compile(r"layernum\[(\d+)\]_bsz(\d+)_seq(\d+)_rank(\d+)_(ms|act|act_peak)")
MEASURED = {"ms": "state_bytes", "act": "kept_bytes", "act_peak": "rise_bytes"}


def row_of_cells(cells: Cells, spec: Mapping[str, Any], where: str) -> Row:
    """Return a line of the profile under our keys; ``tokens_per_sample`` of the ``csv`` part says how long samples were."""
    missing = [column for column in ("strategy_pp_tp_dp", "key", "memory_mb") if column not in cells]
    if missing:
        raise InputError(f"{where}: column '{missing[0]}' is missing")
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
        **({"plan.framework_version": "whole-vocabulary"} if whole else {}),
        "plan.micro_batch": batch // data,
        "model.num_hidden_layers": layers,
        "workload.global_batch": batch,
        "workload.sequence_length": spec["tokens_per_sample"],
        "stage": 0 if rank == 0 else -1,
        f"measured.{MEASURED[key[5]]}": float(cells["memory_mb"]) * 2**20,
    }
