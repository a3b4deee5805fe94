"""The study's tables and figures on training, predicted for its servers."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from sightline.exploration.answer import Column, Figure
from sightline.profile import Profile
from sightline.reproduction.answer import ReproducedTable, table
from sightline.reproduction.arxiv_2311_03687.modules import layer_times
from sightline.reproduction.arxiv_2311_03687.pretraining import BATCHES, largest
from sightline.reproduction.arxiv_2311_03687.settings import (
    A800,
    BATCH,
    FINETUNING,
    FITS,
    MEMORY,
    MODEL,
    MODELS,
    NAMES,
    OUT_OF_MEMORY,
    PLATFORM,
    PLATFORMS,
    PRETRAINING,
    QUICK,
    ROW,
    THROUGHPUT,
    TIME,
    rate,
    trained,
)
from sightline.reproduction.asking import Ask, Tables

WHERE: Mapping[str, Column] = {"platform": PLATFORM, "model": MODEL}


def frameworks(ask: Ask) -> ReproducedTable:
    """Return throughput and memory of DeepSpeed and Megatron-LM by batch."""
    rows = [
        {
            "framework": framework,
            "batch": batch,
            **_outcome(ask.profile(trained(A800, batch=batch, framework=framework))),
        }
        for framework, batch in product(("deepspeed", "megatron"), BATCHES)
    ]
    return table(
        "frameworks",
        "DeepSpeed and Megatron-LM by batch: 7B on 8 A800; the batch is per GPU, and of Megatron-LM's only replica",
        rows,
        about={"framework": Column(label="framework"), "batch": BATCH, **OUTCOME},
        figures=[
            Figure(
                kind="lines", title="Throughput", x="batch", y="tokens_per_s", series="framework", log=frozenset("x")
            )
        ],
    )


OUTCOME: Mapping[str, Column] = {
    "fits": FITS,
    "tokens_per_s": THROUGHPUT,
    "memory_bytes": MEMORY,
}
"""Columns of what a plan comes to."""


def _outcome(profile: Profile) -> dict[str, Any]:
    """What a plan comes to; one out of memory has no throughput."""
    found = {"fits": "yes" if profile.fits else "no", "memory_bytes": float(profile.memory_bytes["total"])}
    value = rate(profile)
    return found if value is None else {**found, "tokens_per_s": value}


def pretraining_grid(ask: Ask) -> ReproducedTable:
    """Return the grid of techniques in pre-training, by model and platform."""
    return _grid(ask, "pretraining", "Pre-training with DeepSpeed by technique, batch 1 per GPU", PRETRAINING)


def finetuning_grid(ask: Ask) -> ReproducedTable:
    """Return the grid of techniques in fine-tuning, by model and platform."""
    return _grid(ask, "finetuning", "LoRA and QLoRA with DeepSpeed by technique, batch 1 per GPU", FINETUNING)


def largest_pretraining(ask: Ask) -> ReproducedTable:
    """Return the largest batch of each technique in pre-training (the study's Table IV)."""
    title = "Pre-training with DeepSpeed: the largest batch per GPU that fits, of powers of two"
    return _grid(ask, "largest-pretraining", title, PRETRAINING, at_largest=True)


def largest_finetuning(ask: Ask) -> ReproducedTable:
    """Return the largest batch of each technique in fine-tuning (the study's Table VII)."""
    title = "LoRA and QLoRA with DeepSpeed: the largest batch per GPU that fits, of powers of two"
    return _grid(ask, "largest-finetuning", title, FINETUNING, at_largest=True)


def _grid(ask: Ask, id_: str, title: str, techniques: tuple[str, ...], *, at_largest: bool = False) -> ReproducedTable:
    kept = [row for row in techniques if not ask.small or row in QUICK]
    models = list(MODELS)[:1] if ask.small else list(MODELS)
    rows = []
    for platform, model, row in product(PLATFORMS, models, kept):
        batch = largest(ask, platform, row, model=model) if at_largest else 1
        outcome = _outcome(ask.profile(trained(platform, row, model=model, batch=max(batch, 1))))
        cell = {"platform": NAMES[platform], "model": MODELS[model], "row": row, **outcome}
        rows.append({**cell, "batch": batch} if at_largest else cell)
    return table(
        id_,
        title,
        rows,
        about={**WHERE, "row": ROW, **({"batch": BATCH} if at_largest else {}), **OUTCOME},
        figures=[
            Figure(
                kind="bars",
                title="Throughput, 7B",
                x="row",
                y="tokens_per_s",
                series="platform",
                missing=OUT_OF_MEMORY,
                where={"model": "7B"},
            )
        ],
    )


def phases(ask: Ask) -> ReproducedTable:
    """Return the time of each phase of a step by batch."""
    rows = []
    for batch in BATCHES:
        profile = ask.profile(trained(A800, batch=batch))
        if profile.fits:
            rows += [
                {"batch": batch, "phase": phase, "time_s": float(time), "share": float(time / profile.step_time_s)}
                for phase, time in profile.phases.items()
                if time
            ]
    return table(
        "phases",
        "Phases of a step by batch: 7B, DeepSpeed on 8 A800",
        rows,
        about={
            "batch": BATCH,
            "phase": Column(label="phase", values={"communication_exposed": "unoverlapped communication"}),
            "time_s": TIME,
            "share": Column(label="share of the step", unit="share"),
        },
        figures=[Figure(kind="bars", title="Share of the step", x="batch", y="share", series="phase")],
    )


def modules(ask: Ask) -> ReproducedTable:
    """Return the time of a decoder layer's modules, forward and backward."""
    return _modules(ask, "modules", "Modules of the decoder layers: 7B, batch 2 on an A800, eager attention", ("N",))


def attention(ask: Ask) -> ReproducedTable:
    """Return modules without and with FlashAttention."""
    return _modules(ask, "attention", "Modules with eager and with FlashAttention: 7B, batch 2 on an A800", ("N", "F"))


def _modules(ask: Ask, id_: str, title: str, techniques: tuple[str, ...]) -> ReproducedTable:
    return table(
        id_,
        title,
        _module_rows(ask, techniques),
        about={
            "row": ROW,
            "phase": Column(label="phase"),
            "module": Column(label="module"),
            "time_s": TIME,
            "share": Column(label="share of the layer", unit="share"),
        },
        figures=[Figure(kind="bars", title="Time", x="module", y="time_s", series="phase", panel="row")],
    )


def _module_rows(ask: Ask, techniques: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    for row, phase in product(techniques, ("forward", "backward")):
        times = layer_times(ask.profile(trained(A800, row, batch=2)), phase)
        whole = sum(times.values())
        for module, time in times.items():
            yield {"row": row, "phase": phase, "module": module, "time_s": time, "share": time / whole}


def recomputation(ask: Ask) -> ReproducedTable:
    """Return what recomputation and FlashAttention cost and save by batch."""
    rows = [
        {"row": row, "batch": batch, **_outcome(ask.profile(trained(A800, row, batch=batch)))}
        for row, batch in product(("N", "R", "F", "F+R", "F+Z2", "F+R+Z2"), BATCHES)
    ]
    return table(
        "recomputation",
        "Recomputation and FlashAttention by batch: 7B, DeepSpeed on 8 A800",
        rows,
        about={"row": ROW, "batch": BATCH, **OUTCOME},
        figures=[
            Figure(kind="lines", title="Throughput", x="batch", y="tokens_per_s", series="row", log=frozenset("x"))
        ],
    )


TABLES: Tables = {
    "frameworks": frameworks,
    "pretraining": pretraining_grid,
    "largest-pretraining": largest_pretraining,
    "phases": phases,
    "modules": modules,
    "attention": attention,
    "recomputation": recomputation,
    "finetuning": finetuning_grid,
    "largest-finetuning": largest_finetuning,
}
