"""The operators that a device's constants are fitted to, sized so that each takes a moment on this machine."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from sightline.errors import InputError
from sightline.loading.clusters import read_cluster
from sightline.loading.clusters.this_machine import THIS_MACHINE, processor
from sightline.measurement.operators.processor_suite import HOW, processor_entries
from sightline.scenario import Device
from sightline.scenario.operation import ElementwiseName

LONGEST_S = 0.02
"""Time that an operator of the suite may take at the device's peak: ten times as long in practice."""
SHAPES = (
    *((256, 256), (512, 512), (768, 768), (2048, 768), (768, 2048), (1024, 1024), (4096, 1024), (1024, 4096)),
    *((2048, 2048), (5632, 2048), (2048, 5632), (4096, 4096), (14336, 4096), (4096, 14336), (8192, 8192)),
)
"""Columns and length of products: squares, and the projections of small and large models."""
ROWS = (1, 4, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
HEADS = ((4, 4, 32), (8, 8, 64), (16, 4, 64), (12, 12, 64), (32, 8, 128))
"""Heads, heads of keys and values, their width."""
CONTEXTS = (64, 128, 256, 512, 1024, 2048, 4096)
BATCHES = (1, 8)
ELEMENTS = tuple(2**power for power in range(14, 27))
MESSAGES = tuple(2**power for power in range(10, 27))
KERNELS: tuple[ElementwiseName, ...] = ("copy", "norm", "activation", "embedding", "rope", "softmax", "residual")
"""One of each class of kernels that has constants; the others are predicted with those of a class."""
MANY = 24
"""Operators of a kind of which a quick suite takes every second one."""
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")

Workload = Mapping[str, Any]


def standard_suite(dtype: str, *, quick: bool, cluster: str | None = None) -> list[dict[str, Any]]:
    """Return the scenarios of the suite in one dtype: on one device and, unless ``quick``, between those of ``cluster``.

    Where an operator is measured in some other way than usual, ``processor_suite.HOW`` says how.

    Without a cluster, these are the processor and two of its processes, where it has as many cores. Raises `InputError`
    for a cluster that cannot be read or a dtype that its device does not compute in.
    """
    several = cluster or (f"2x {THIS_MACHINE}" if processor().cores > 1 else THIS_MACHINE)
    read = read_cluster(several)
    one = THIS_MACHINE if read.device.name == THIS_MACHINE else f"1x {read.device.name}"
    device = read_cluster(one).device
    if dtype not in device.peak_flops:
        raise InputError(f"--dtype is '{dtype}'; {device.name} computes in {', '.join(device.peak_flops)}")
    if one == THIS_MACHINE:
        suite = [
            _scenario(one, w) | ({HOW: how} if how else {}) for w, how in processor_entries(device, dtype, quick=quick)
        ]
    else:
        alone = [*_matmuls(device, dtype), *_attention(device, dtype), *_elementwise(device, dtype)]
        suite = [_scenario(one, w) for w in (thinned(alone) if quick else alone)]
    if read.devices > 1 and not quick:
        suite += [
            _scenario(several, {"operator": name, "bytes": size}) for name, size in product(COLLECTIVES, MESSAGES)
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
    for name, elements in product(KERNELS, ELEMENTS):
        if 8 * elements <= most:
            yield {"operator": name, "elements": elements, "dtype": dtype}
