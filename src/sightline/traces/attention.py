"""Which kernels are eager attention: softmax between two batched products, and what stands between them."""

from dataclasses import replace
from typing import TYPE_CHECKING

from sightline.traces.operators import Work

if TYPE_CHECKING:
    from sightline.traces.activity import Key

CORE = "attention core"
_PARTS = {"batched matmul": "scores and values", "softmax": "softmax"}


def attention_core(keys: "list[Key]") -> "list[Key]":
    """Return the keys with those of eager attention named so, in place of what their kernels are alone.

    A model with softmax and batched products in the same phase computes attention with them.
    """
    phases = {one.phase for one in keys if one.work.operator == "softmax"}
    phases &= {one.phase for one in keys if one.work.operator == "batched matmul"}
    if not phases:
        return keys
    return [_renamed(one) if one.phase in phases else one for one in keys]


def _renamed(key: "Key") -> "Key":
    part = _PARTS.get(key.work.operator)
    return key if part is None else replace(key, work=Work(CORE, part, key.work.bound))
