"""The operators that a processor's constants are fitted to: what a training step calls, in the cache and from memory."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from sightline.measurement.operators.recorded import BACKWARD, IMPLEMENTATIONS, RECORDED
from sightline.scenario import Device

HOW = "how"
"""Key of a suite's entry, besides those of its scenario: ``implementation``, and whether operands are ``cached`` or caches
``flushed`` before each call."""
CACHED, FLUSHED = {"cached": True}, {"flushed": True}

WEIGHTS = (
    *((64, 64), (192, 64), (256, 256), (688, 256), (384, 1024), (512, 512), (512, 1376), (1024, 640)),
    *((768, 2048), (2048, 768), (4096, 256), (4096, 1024), (8192, 512)),
)
"""Outputs and inputs of linear layers of small models: projections, both sides of an MLP, heads."""
TOKENS = (1, 2, 8, 64, 128, 256, 512, 1024, 2048)
QUICK_TOKENS = (1, 64, 256, 1024)
LAYOUTS = ("library", "input-gradient", "weight-gradient")
LONGEST_S = 0.02
"""Time that an operator may take at the device's peak."""
DISPATCH = 16
"""Sides of a product so small that only its call takes time."""
HEADS = ((4, 4, 16), (8, 8, 32), (8, 4, 64), (12, 12, 64), (8, 2, 128))
CONTEXTS = (4, 64, 128, 256, 512, 1024)
QUICK_CONTEXTS = (4, 128, 512)
BATCHES = (1, 4)
ELEMENTWISE = ("norm", "rope", "gated_activation", "residual", "embedding", "cross_entropy")
ELEMENTS = tuple(2**power for power in (8, 13, 15, 16, 17, 18, 19, 20, 21, 22, 23))
QUICK_ELEMENTS = tuple(2**power for power in (8, 13, 15, 17, 19, 21, 23))
CACHED_ELEMENTS = 2**22
"""Beyond these no cache holds the tensors of a repeated operator."""
FROM_MEMORY = 2**15
"""Parameters below which an optimizer's states stay in the cache."""
FUSED = ("copy", "norm", "activation", "embedding", "rope", "softmax", "residual")
"""Single kernels, the classes of the element-wise calibration."""

Workload = Mapping[str, Any]
Entry = tuple[Workload, dict[str, Any]]


def processor_entries(device: Device, dtype: str, *, quick: bool) -> list[Entry]:
    """Return the workloads with how each is measured; ``quick`` takes a coarser grid of sizes."""
    most_flops = LONGEST_S * float(device.peak_flops[dtype])
    return [
        *_products(dtype, QUICK_TOKENS if quick else TOKENS, most_flops),
        *_attention(dtype, QUICK_CONTEXTS if quick else CONTEXTS, most_flops),
        *_elementwise(dtype, QUICK_ELEMENTS if quick else ELEMENTS),
        *_updates(QUICK_ELEMENTS if quick else ELEMENTS),
        *_kernels(dtype, QUICK_ELEMENTS if quick else ELEMENTS),
    ]


def _products(dtype: str, tokens: tuple[int, ...], most_flops: float) -> Iterator[Entry]:
    """Each linear layer's three products over so many tokens, and the calls around them."""
    weights = WEIGHTS if len(tokens) > len(QUICK_TOKENS) else WEIGHTS[::2]
    for rows, (outputs, inputs), layout in product(tokens, weights, LAYOUTS):
        if 2 * rows * outputs * inputs > most_flops or (rows < 64 and layout != "library"):
            continue
        m, n, k = {
            "library": (rows, outputs, inputs),
            "input-gradient": (rows, inputs, outputs),
            "weight-gradient": (outputs, inputs, rows),
        }[layout]
        workload = {"operator": "matmul", "m": m, "n": n, "k": k, "dtype": dtype}
        for place in (CACHED, FLUSHED):
            yield workload, {"implementation": layout, **place}
    tiny = {"operator": "matmul", "m": DISPATCH, "n": DISPATCH, "k": DISPATCH, "dtype": dtype}
    for implementation in (*LAYOUTS, *IMPLEMENTATIONS):
        yield tiny, {"implementation": implementation, **CACHED}


def _attention(dtype: str, contexts: tuple[int, ...], most_flops: float) -> Iterator[Entry]:
    for (heads, kv_heads, dim), context, batch in product(HEADS, contexts, BATCHES):
        if 10 * batch * heads * dim * context * context > most_flops:
            continue
        workload = {
            "operator": "attention",
            "batch": batch,
            "heads": heads,
            "kv_heads": kv_heads,
            "head_dim": dim,
            "query_tokens": context,
            "context_tokens": context,
            "dtype": dtype,
        }
        for implementation, place in product(IMPLEMENTATIONS, (CACHED, FLUSHED)):
            yield workload, {"implementation": implementation, **place}


def _elementwise(dtype: str, sizes: tuple[int, ...]) -> Iterator[Entry]:
    for name, elements, implementation in product(ELEMENTWISE, sizes, (RECORDED, BACKWARD)):
        workload = {"operator": name, "elements": elements, "dtype": dtype}
        for place in _places(elements):
            yield workload, {"implementation": implementation, **place}


def _updates(sizes: tuple[int, ...]) -> Iterator[Entry]:
    for elements in sizes:
        workload = {"operator": "adam", "elements": elements, "dtype": "fp32"}
        if elements <= CACHED_ELEMENTS:
            yield workload, {"implementation": "clipped", **CACHED}
        if elements >= FROM_MEMORY:
            yield workload, {"implementation": "clipped"}


def _kernels(dtype: str, sizes: tuple[int, ...]) -> Iterator[Entry]:
    for name, elements in product(FUSED, sizes):
        if elements > sizes[0]:
            yield {"operator": name, "elements": elements, "dtype": dtype}, {}


def _places(elements: int) -> tuple[dict[str, bool], ...]:
    """In the cache, driven out of it, or both."""
    return (CACHED, FLUSHED) if elements <= CACHED_ELEMENTS else (FLUSHED,)
