"""The operators that a device's constants are fitted to, sized so that each takes a moment on this machine."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from sightline.loading.clusters import read_cluster
from sightline.loading.this_machine import THIS_MACHINE, processor
from sightline.scenario import Device
from sightline.scenario.operation import ELEMENTWISE

STANDARD = "standard"
LONGEST_S = 0.02
"""Time that an operator of the suite may take at the device's peak: ten times as long in practice."""
SHAPES = (
    (256, 256),
    (512, 512),
    (768, 768),
    (2048, 768),
    (768, 2048),
    (1024, 1024),
    (4096, 1024),
    (1024, 4096),
    (2048, 2048),
    (5632, 2048),
    (2048, 5632),
    (4096, 4096),
    (14336, 4096),
    (4096, 14336),
    (8192, 8192),
)
"""Columns and length of products: squares, and the projections of small and large models."""
ROWS = (1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
HEADS = ((4, 4, 32), (8, 8, 64), (16, 4, 64), (12, 12, 64), (32, 8, 128))
"""Heads, heads of keys and values, their width."""
CONTEXTS = (64, 128, 256, 512, 1024, 2048, 4096)
BATCHES = (1, 8)
ELEMENTS = tuple(2**power for power in range(14, 27))
MESSAGES = tuple(2**power for power in range(10, 27))
MANY = 24
"""Operators of a kind of which a quick suite takes every second one."""
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")

Workload = Mapping[str, Any]


def standard_suite(dtype: str, *, quick: bool) -> list[dict[str, Any]]:
    """Return the scenarios of the suite in one dtype: on the processor and, unless ``quick``, between two of its processes."""
    device = read_cluster(THIS_MACHINE).device
    alone = [*_matmuls(device, dtype), *_attention(device, dtype), *_elementwise(device, dtype)]
    suite = [_scenario(THIS_MACHINE, w) for w in (thinned(alone) if quick else alone)]
    if processor().cores > 1 and not quick:
        suite += [
            _scenario(f"2x {THIS_MACHINE}", {"operator": name, "bytes": size})
            for name, size in product(COLLECTIVES, MESSAGES)
        ]
    return suite


def thinned(workloads: Sequence[Workload]) -> list[Workload]:
    """Return every second operator of the kinds that have many; neighbours in the grid alternate."""
    counts = Counter(w["operator"] for w in workloads)
    kinds = ([w for w in workloads if w["operator"] == kind][:: 2 if n > MANY else 1] for kind, n in counts.items())
    return [w for kind in kinds for w in kind]


def _scenario(cluster: str, workload: Workload) -> dict[str, Any]:
    return {"cluster": cluster, "workload": {"task": "operator", **workload}}


def _matmuls(device: Device, dtype: str) -> Iterator[Workload]:
    most = LONGEST_S * float(device.peak_flops[dtype])
    for (n, k), m in product(SHAPES, ROWS):
        if 2 * m * n * k <= most:
            yield {"operator": "matmul", "m": m, "n": n, "k": k, "dtype": dtype}


def _attention(device: Device, dtype: str) -> Iterator[Workload]:
    """Prompts, and single queries against what came before."""
    most = LONGEST_S * float(device.peak_flops[dtype])
    for (heads, kv_heads, dim), context, batch, prompt in product(HEADS, CONTEXTS, BATCHES, (True, False)):
        queries = context if prompt else 1
        if 4 * batch * heads * dim * queries * context > most / 4:
            continue
        yield {
            "operator": "attention",
            "batch": batch,
            "heads": heads,
            "kv_heads": kv_heads,
            "head_dim": dim,
            "query_tokens": queries,
            "context_tokens": context,
            "dtype": dtype,
        }


def _elementwise(device: Device, dtype: str) -> Iterator[Workload]:
    most = LONGEST_S * float(device.memory_bandwidth)
    for name, elements in product(ELEMENTWISE, ELEMENTS):
        if 8 * elements <= most:
            yield {"operator": name, "elements": elements, "dtype": dtype}
