"""Kernels that a benchmark of attention times together with attention: what engines run before it on its inputs.

Engines differ in which of them their attention operator holds, so a table says more of its engine here than of its
device. Priced as if nobody had measured them, so that nothing of the table goes in.
"""

from typing import Literal

import numpy as np

from sightline.calibration.attention_serving_tables import ServingAttentionTable
from sightline.calibration.tables import Array
from sightline.cost.elementwise import elementwise_cost, load_elementwise
from sightline.cost.families import UNMEASURED
from sightline.scenario import Device

Beside = Literal["cache write", "rope"]
"""Class of the kernel: it writes new keys and values to their pages (vLLM until 0.15, see vllm-project/vllm#25954), or
also rotates queries and keys on the way (TensorRT-LLM)."""

ELEMENT_BYTES = 2.0


def beside_seconds(table: ServingAttentionTable, device: Device, beside: Beside | None) -> Array:
    """Seconds of that kernel for every measurement; 0 where the table holds attention alone."""
    t = table
    if beside is None:
        return np.zeros(len(t))
    moved = t.batch * t.kv_heads * t.query_tokens * (t.head_dim + t.value_dim) * (ELEMENT_BYTES + t.kv_bytes)
    if beside == "rope":
        moved = moved + 2 * ELEMENT_BYTES * t.batch * t.heads * t.query_tokens * t.head_dim
    constants = load_elementwise(UNMEASURED, "vectorized")[beside]
    return np.asarray(elementwise_cost(moved, 0.0, 1.0, device=device, constants=constants).time_s)
