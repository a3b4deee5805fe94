"""Findings on single operators, and their tables: products of matrices, copies of memory, collectives."""

from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from typing import Any

from sightline import catalog
from sightline.exploration.study_answer import Column, Figure
from sightline.profile import Profile
from sightline.quantities import GIB
from sightline.reproduction.arxiv_2311_03687.settings import (
    A800,
    BATCH,
    CARDS,
    GPUS,
    NAMES,
    PLATFORM,
    PLATFORMS,
    RTX_3090,
    RTX_3090_NVLINK,
    SEQUENCE,
    SEVEN,
    TIME,
    as_described,
)
from sightline.reproduction.asking import Ask, Findings, Row, Tables
from sightline.reproduction.outcomes import Interpretation, judged

FINDINGS, TABLES = Findings(), Tables()
LINES: Mapping[str, Any] = {"kind": "lines", "series": "platform"}
KIB, MIB = 2**10, 2**20
SIZES = tuple(4 * KIB * 4**power for power in range(10))
"""Messages of collectives in bytes: 4 KiB to 1 GiB."""
SHARDED = ("all_gather", "reduce_scatter")
COLLECTIVES = ("all_reduce", "reduce", *SHARDED)
"""Those that the study's frameworks call: without ZeRO, in ZeRO-2, and in ZeRO-2 and 3."""
SMALL_BYTES, LARGE_BYTES = 64 * KIB, 256 * MIB
KNEE = 2.0
"""Times over those of the smallest message from which bandwidth is said to rule."""


@FINDINGS.add()
def a33(ask: Ask) -> Interpretation:
    """Return the times without NVLink over those with it, of all-gather and reduce-scatter at every size."""
    ratios = {
        (kind, size): _seconds(ask, RTX_3090, kind, size) / _seconds(ask, RTX_3090_NVLINK, kind, size)
        for kind, size in product(SHARDED, SIZES)
    }
    low, high = (f"{ratios[kind, size]:.2f} ({_word(kind)} of {_bytes(size)})" for kind, size in _ends(ratios))
    said = f"From {_bytes(SIZES[0])} to {_bytes(SIZES[-1])} both are faster by a factor of {low} to {high}."
    return Interpretation(values=list(ratios.values()), sentence=said, choices=as_described(RTX_3090))


@FINDINGS.add()
def a34(ask: Ask) -> Interpretation:
    """Return the share of statements on a knee of reduce-scatter that hold over all platforms.

    Of each platform: messages up to `SMALL_BYTES` take less than `KNEE` times as long as the smallest, though up to 16
    times as large; those from `LARGE_BYTES` on take in proportion to their size, within a tenth.
    """
    statements, knees = {}, []
    for platform in PLATFORMS:
        times = {size: _seconds(ask, platform, "reduce_scatter", size) for size in SIZES}
        start, name = times[SIZES[0]], NAMES[platform]
        statements[f"{_bytes(SMALL_BYTES)} take less than {KNEE:g} start-ups on the {name}"] = (
            times[SMALL_BYTES] < KNEE * start
        )
        for less, more in pairwise(size for size in SIZES if size >= LARGE_BYTES):
            growth = times[more] / times[less] / (more / less)
            statements[f"from {_bytes(less)} to {_bytes(more)} time grows with size on the {name}"] = (
                abs(growth - 1.0) < 0.1
            )
        knee = next((_bytes(size) for size in SIZES if times[size] >= KNEE * start), "no size")
        knees.append(f"{knee} on the {name} (start-up {start * 1e6:.0f} us)")
    sentence = f"A message takes twice the start-up time from {', '.join(knees)}."
    return judged(statements, sentence, as_described(*PLATFORMS))


@FINDINGS.add()
def a38(ask: Ask) -> Interpretation:
    """Return the ratios of all-gather to reduce-scatter, over sizes and platforms."""
    ratios = {
        (platform, size): _seconds(ask, platform, "all_gather", size) / _seconds(ask, platform, "reduce_scatter", size)
        for platform, size in product(PLATFORMS, SIZES)
    }
    low, high = (
        f"{ratios[platform, size]:.2f} ({_bytes(size)} on the {NAMES[platform]})" for platform, size in _ends(ratios)
    )
    sentence = f"The ratio is {low} to {high}."
    return Interpretation(values=list(ratios.values()), sentence=sentence, choices=as_described(*PLATFORMS))


def _ends(ratios: Mapping[tuple[str, int], float]) -> tuple[tuple[str, int], tuple[str, int]]:
    """Where ratios are the smallest and the largest."""
    return min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)


def _seconds(ask: Ask, platform: str, kind: str, size: int) -> float:
    """Seconds of a collective over all GPUs of a platform."""
    workload = {"task": "operator", "operator": kind, "bytes": size}
    return float(ask.profile({"cluster": platform, "workload": workload}).time_s)


def _word(kind: str) -> str:
    return kind.replace("_", "-")


def _bytes(size: int) -> str:
    unit, name = next((unit, name) for unit, name in ((int(GIB), "GiB"), (MIB, "MiB"), (KIB, "KiB")) if size >= unit)
    return f"{size // unit} {name}"


SIZE = Column(label="size", unit="B")
RATE = Column(label="bandwidth", unit="B/s")


GPU_KINDS = (A800, *CARDS)
"""Platforms whose GPUs differ."""
BATCHES = (1, 2, 4, 8, 16, 32)


def products() -> Mapping[str, tuple[int, int]]:
    """Return n and k of the products of Llama-2-7B, of as many rows as there are tokens."""
    config = catalog.entry("models", SEVEN)
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    return {
        "query, key, value, output": (hidden, hidden),
        "gate, up": (inner, hidden),
        "down": (hidden, inner),
        "head": (config["vocab_size"], hidden),
    }


@TABLES.add(
    "matmul",
    f"Products of Llama-2-7B by batch: {SEQUENCE} tokens a sample, bf16",
    about={
        "platform": PLATFORM,
        "product": Column(label="product"),
        "batch": BATCH,
        "time_s": TIME,
        "flops_per_s": Column(label="rate", unit="FLOP/s"),
    },
    figures=[Figure(title="Rate", x="batch", y="flops_per_s", panel="product", log=frozenset("x"), **LINES)],
)
def matmuls(ask: Ask) -> Iterator[Row]:
    """Yield times and rates of the model's products by batch and GPU."""
    for platform, (name, (n, k)), batch in product(GPU_KINDS, products().items(), BATCHES):
        profile = _alone(ask, platform, {"operator": "matmul", "m": batch * SEQUENCE, "n": n, "k": k})
        yield {
            "platform": NAMES[platform],
            "product": name,
            "batch": batch,
            "time_s": float(profile.time_s),
            "flops_per_s": float(profile.flops_per_s),
        }


COPIES: Mapping[str, Mapping[str, str]] = {
    "within the device": {},
    "host to device, pinned": {"direction": "host-to-device"},
    "device to host, pinned": {"direction": "device-to-host"},
    "host to device, pageable": {"direction": "host-to-device", "host_memory": "pageable"},
}


@TABLES.add(
    "copies",
    "Copies of memory by size",
    about={"platform": PLATFORM, "copy": Column(label="copy"), "bytes": SIZE, "time_s": TIME, "bytes_per_s": RATE},
    figures=[Figure(title="Bandwidth", x="bytes", y="bytes_per_s", panel="copy", log=frozenset("xy"), **LINES)],
    reading=["Copies count each byte once, though a copy within a device reads and writes it."],
)
def copies(ask: Ask) -> Iterator[Row]:
    """Yield times and bandwidths of copies within a device and between it and its host, by size."""
    for platform, (name, settings), size in product(GPU_KINDS, COPIES.items(), SIZES):
        profile = _alone(ask, platform, {"operator": "copy", "elements": size // 2, "dtype": "bf16", **settings})
        time_s = float(profile.time_s)
        kind = {"platform": NAMES[platform], "copy": name}
        yield {**kind, "bytes": size, "time_s": time_s, "bytes_per_s": size / time_s}


@TABLES.add(
    "collectives",
    f"Collectives over the {GPUS} GPUs of a server by size",
    about={
        "platform": PLATFORM,
        "collective": Column(label="collective", values={kind: _word(kind) for kind in COLLECTIVES}),
        "bytes": SIZE,
        "time_s": TIME,
        "bus_bytes_per_s": Column(label="bus bandwidth", unit="B/s"),
    },
    figures=[Figure(title="Time", x="bytes", y="time_s", panel="collective", log=frozenset("xy"), **LINES)],
)
def collectives(ask: Ask) -> Iterator[Row]:
    """Yield times and bus bandwidths of the study's collectives by size and platform."""
    # What nccl-tests call bus bandwidth: the bytes that cross a link over the time.
    shard = (GPUS - 1) / GPUS
    crossing = {"all_reduce": 2 * shard, "reduce": 1.0, **dict.fromkeys(SHARDED, shard)}
    for platform, kind, size in product(PLATFORMS, COLLECTIVES, SIZES):
        time_s = _seconds(ask, platform, kind, size)
        yield {
            "platform": NAMES[platform],
            "collective": kind,
            "bytes": size,
            "time_s": time_s,
            "bus_bytes_per_s": crossing[kind] * size / time_s,
        }


def _alone(ask: Ask, platform: str, workload: Mapping[str, Any]) -> Profile:
    """An operator on one GPU of a platform."""
    return ask.profile({"cluster": {"same_as": platform, "devices": 1}, "workload": {"task": "operator", **workload}})
