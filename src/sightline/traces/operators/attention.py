"""Which kernels are eager attention: softmax between two batched products, and what stands between them."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from sightline.traces.events import Integers
from sightline.traces.operators.names import Work

if TYPE_CHECKING:
    from sightline.traces.activity import Key

CORE = "attention core"
_SOFTMAX, _BATCHED, _PRODUCT = 1, 2, 3
_KINDS = {"softmax": _SOFTMAX, "batched matmul": _BATCHED, "matmul": _PRODUCT}
_PARTS = {"batched matmul": "scores and values", "softmax": "softmax"}


def attention_core(keys: "list[Key]", key: Integers, instants: Integers, batches: Integers) -> "list[Key]":
    """Return the keys with those of eager attention named so, in place of what their kernels are alone.

    A phase computes eager attention if softmax stands between two batched products of as many matrices, with no other
    product between them, and no kernel of fused attention runs. The softmax of a router or a loss stands elsewhere.

    Args:
        keys: What kernels are called.
        key: Of each kernel, as a place in ``keys``.
        instants: When each kernel was launched.
        batches: How many matrices each multiplies; -1 unknown.
    """
    if not any(one.work.operator == "softmax" for one in keys):
        return keys
    is_fused = {one.phase for one in keys if one.work.operator == "flash attention"}
    phases = {
        phase
        for phase in {one.phase for one in keys} - is_fused
        if _is_eager([_kind(one) if one.phase == phase else 0 for one in keys], key, instants, batches)
    }
    return [_renamed(one) if one.phase in phases else one for one in keys]


def _kind(key: "Key") -> int:
    # Of the host's operators matmul is the one around a product, batched or not.
    return 0 if key.name == "aten::matmul" else _KINDS.get(key.work.operator, 0)


def _is_eager(numbers: list[int], key: Integers, instants: Integers, batches: Integers) -> bool:
    kinds = np.array(numbers, np.int64)[key]
    places = np.flatnonzero(kinds)
    places = places[np.argsort(instants[places], kind="stable")]
    kinds = kinds[places]
    products = np.flatnonzero(kinds != _SOFTMAX)
    after = np.searchsorted(products, np.flatnonzero(kinds == _SOFTMAX))
    after = after[(after > 0) & (after < len(products))]
    first, second = products[after - 1], products[after]
    batched = (kinds[first] == _BATCHED) & (kinds[second] == _BATCHED)
    one, other = batches[places[first]], batches[places[second]]
    return bool((batched & ((one == other) | (one < 0) | (other < 0))).any())


def _renamed(key: "Key") -> "Key":
    part = _PARTS.get(key.work.operator)
    return key if part is None else replace(key, work=Work(CORE, part, key.work.bound))
