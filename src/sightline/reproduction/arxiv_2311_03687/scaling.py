"""Findings on the links inside the servers: scaling from one GPU to eight, and what NVLink adds on the RTX 3090."""

from collections.abc import Iterator
from itertools import product
from statistics import fmean
from typing import Any

from sightline.exploration.answer import Column, Figure
from sightline.quantities import percent
from sightline.reproduction.answer import Choice, Interpretation, ReproducedTable, table, taken
from sightline.reproduction.arxiv_2311_03687.settings import (
    A800,
    AS_DESCRIBED,
    GPUS,
    HOST_MEMORY,
    LINKS,
    MODELS,
    NAMES,
    PLATFORM,
    PLATFORMS,
    PRETRAINING,
    QUICK,
    RTX_3090,
    RTX_3090_NVLINK,
    RTX_4090,
    SERVERS,
    SEVEN,
    THIRTEEN,
    THROUGHPUT,
    Parts,
    rate,
    ratio,
    trained,
)
from sightline.reproduction.asking import Ask, Asked, Findings, Tables

BATCH_PER_GPU = 2


def a1(ask: Ask) -> list[Interpretation]:
    """Return the A800's scaling efficiency."""
    return [_scaled(ask, A800)]


def a2(ask: Ask) -> list[Interpretation]:
    """Return the RTX 4090's scaling efficiency for each interpretation of its links."""
    return [_scaled(ask, RTX_4090, links) for links in LINKS]


def a3(ask: Ask) -> list[Interpretation]:
    """Return the RTX 3090's scaling efficiency for each way to fill its host's memory."""
    return [_scaled(ask, RTX_3090, memory) for memory in HOST_MEMORY]


def a4(ask: Ask) -> list[Interpretation]:
    """Return the RTX 3090's efficiency with NVLink over that without."""
    interpretations = []
    for memory in HOST_MEMORY:
        bridged, plain = (_efficiency(ask, platform, memory.value) for platform in (RTX_3090_NVLINK, RTX_3090))
        gain, figures = ratio(bridged, plain), f"{_share(bridged)} with NVLink and {_share(plain)} without"
        interpretations.append(
            Interpretation(choices=taken(memory), values=[gain], sentence=f"The efficiency is {figures}.")
        )
    return interpretations


def a35(ask: Ask) -> list[Interpretation]:
    """Return the mean gain from NVLink over the rows of pre-training that fit the RTX 3090."""
    interpretations = []
    for memory in HOST_MEMORY:
        gains = dict(_gains(ask, memory.value))
        least, most = (pick(gains, key=lambda row: gains[row]) for pick in (min, max))
        span = f"from {percent(gains[least], 1)} ({least}) to {percent(gains[most], 1)} ({most})"
        sentence = f"{len(gains)} rows at batch 1 gain {span}."
        interpretations.append(Interpretation(choices=taken(memory), values=[fmean(gains.values())], sentence=sentence))
    return interpretations


def _gains(ask: Ask, parts: Parts) -> Iterator[tuple[str, float]]:
    """Rows of pre-training that fit with and without NVLink, and the throughput that it adds to each."""
    rows = [row for row in PRETRAINING if not ask.small or row in QUICK]
    for model, row in product((SEVEN, THIRTEEN), rows):
        bridged, plain = (
            rate(ask.profile(changed(trained(platform, row, model=model), parts)))
            for platform in (RTX_3090_NVLINK, RTX_3090)
        )
        gain = ratio(bridged, plain)
        if gain is not None:
            yield f"{MODELS[model]} {row}", gain - 1.0


def changed(asked: Asked, parts: Parts) -> Asked:
    """Return a scenario with parts of its server replaced."""
    cluster = asked["cluster"]
    whole = {"same_as": cluster} if isinstance(cluster, str) else cluster
    return {**asked, "cluster": {**whole, **parts}} if parts else asked


def _scaled(ask: Ask, platform: str, *choices: Choice[Parts]) -> Interpretation:
    """A platform's efficiency as an interpretation, with what a step takes on one GPU and on all."""
    parts = choices[0].value if choices else AS_DESCRIBED
    alone, whole = (ask.profile(_step(platform, devices, parts)) for devices in (1, GPUS))
    exposed = float(whole.phases["communication_exposed"])
    times = f"{alone.step_time_s * 1e3:.0f} ms on one GPU and {whole.step_time_s * 1e3:.0f} ms on {GPUS}"
    sentence = f"A step takes {times}, {exposed * 1e3:.0f} ms of it unoverlapped communication."
    return Interpretation(choices=taken(*choices), values=[_efficiency(ask, platform, parts)], sentence=sentence)


def _efficiency(ask: Ask, platform: str, parts: Parts, devices: int = GPUS) -> float | None:
    """Throughput per GPU of several over that of one; None where a plan does not fit."""
    whole, alone = (rate(ask.profile(_step(platform, n, parts))) for n in (devices, 1))
    each = ratio(whole, alone)
    return None if each is None else each / devices


def _step(platform: str, devices: int, parts: Parts) -> Asked:
    return changed(trained(platform, "Q", batch=BATCH_PER_GPU, devices=devices), parts)


def _share(value: float | None) -> str:
    return "not to be had" if value is None else percent(value, 1)


def scaling(ask: Ask) -> ReproducedTable:
    """Return throughput and efficiency from one GPU to eight on every platform."""
    return table(
        "scaling",
        "From one GPU to eight: 7B, batch 2 per GPU, 4-bit weights",
        _scaling_rows(ask),
        about={
            "platform": PLATFORM,
            "interpretation": Column(label="interpretation"),
            "devices": Column(label="GPUs"),
            "tokens_per_s": THROUGHPUT,
            "efficiency": Column(label="scaling efficiency", unit="share"),
        },
        figures=[
            Figure(
                kind="lines",
                title="Scaling efficiency",
                x="devices",
                y="efficiency",
                series="platform",
                where={"interpretation": FIRST},
            )
        ],
    )


FIRST = "as described"
"""Of the servers as the catalog has them, the first of their interpretations."""


def _scaling_rows(ask: Ask) -> Iterator[dict[str, Any]]:
    for platform in PLATFORMS:
        others = [one for one in SERVERS.get(platform, ()) if one.value]
        interpretations = {FIRST: AS_DESCRIBED, **{one.name: one.value for one in others}}
        for (said, parts), devices in product(interpretations.items(), (1, 2, 4, GPUS)):
            yield {
                "platform": NAMES[platform],
                "interpretation": said,
                "devices": devices,
                "tokens_per_s": rate(ask.profile(_step(platform, devices, parts))),
                "efficiency": _efficiency(ask, platform, parts, devices),
            }


FINDINGS: Findings = {"A1": a1, "A2": a2, "A3": a3, "A4": a4, "A35": a35}
TABLES: Tables = {"scaling": scaling}
