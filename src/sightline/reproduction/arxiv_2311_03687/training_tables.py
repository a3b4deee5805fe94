"""The study's tables and figures on training, predicted for its servers."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from sightline.exploration.study_answer import Column, Figure
from sightline.profile import Profile
from sightline.reproduction.arxiv_2311_03687 import settings
from sightline.reproduction.arxiv_2311_03687.training_findings import BATCHES, largest, layer_times
from sightline.reproduction.asking import Ask, Row, Tables

TABLES = Tables()
WHERE: Mapping[str, Column] = {"platform": settings.PLATFORM, "model": settings.MODEL}


OUTCOME: Mapping[str, Column] = {
    "fits": settings.FITS,
    "tokens_per_s": settings.THROUGHPUT,
    "memory_bytes": settings.MEMORY,
}
"""Columns of what a plan comes to."""
BY_BATCH: Mapping[str, Any] = {"kind": "lines", "title": "Throughput", "x": "batch", "y": "tokens_per_s"}


@TABLES.add(
    "frameworks",
    "DeepSpeed and Megatron-LM by batch: 7B on 8 A800; the batch is per GPU, and of Megatron-LM's only replica",
    about={"framework": Column(label="framework"), "batch": settings.BATCH, **OUTCOME},
    figures=[Figure(**BY_BATCH, series="framework", log=frozenset("x"))],
)
def frameworks(ask: Ask) -> Iterator[Row]:
    """Yield throughput and memory of DeepSpeed and Megatron-LM by batch."""
    for framework, batch in product(("deepspeed", "megatron"), BATCHES):
        outcome = _outcome(ask.profile(settings.trained(settings.A800, batch=batch, framework=framework)))
        yield {"framework": framework, "batch": batch, **outcome}


def _outcome(profile: Profile) -> dict[str, Any]:
    """What a plan comes to; one out of memory has no throughput."""
    found = {"fits": "yes" if profile.fits else "no", "memory_bytes": float(profile.memory_bytes["total"])}
    value = settings.rate(profile)
    return found if value is None else {**found, "tokens_per_s": value}


def _grid(id_: str, title: str, techniques: Sequence[str], *, at_largest: bool = False) -> None:
    """Add the grid of techniques by model and platform, at batch 1 or at the largest that fits."""

    @TABLES.add(
        id_,
        title,
        about={**WHERE, "row": settings.ROW, **({"batch": settings.BATCH} if at_largest else {}), **OUTCOME},
        figures=[
            Figure(
                **{**BY_BATCH, "kind": "bars", "title": "Throughput, 7B", "x": "row"},
                series="platform",
                missing=settings.OUT_OF_MEMORY,
                where={"model": "7B"},
            )
        ],
    )
    def rows(ask: Ask) -> Iterator[Row]:
        kept = [row for row in techniques if not ask.small or row in settings.QUICK_ROWS]
        for platform, model, row in product(
            settings.PLATFORMS, list(settings.MODELS)[: 1 if ask.small else None], kept
        ):
            batch = largest(ask, platform, row, model=model) if at_largest else 1
            outcome = _outcome(ask.profile(settings.trained(platform, row, model=model, batch=max(batch, 1))))
            cell = {"platform": settings.NAMES[platform], "model": settings.MODELS[model], "row": row, **outcome}
            yield {**cell, "batch": batch} if at_largest else cell


_LARGEST = "the largest batch per GPU that fits, of powers of two"
_grid("pretraining", "Pre-training with DeepSpeed by technique, batch 1 per GPU", settings.PRETRAINING)
# The study's Table IV.
_grid("largest-pretraining", f"Pre-training with DeepSpeed: {_LARGEST}", settings.PRETRAINING, at_largest=True)


@TABLES.add(
    "phases",
    "Phases of a step by batch: 7B, DeepSpeed on 8 A800",
    about={
        "batch": settings.BATCH,
        "phase": Column(label="phase", values={"communication_exposed": "unoverlapped communication"}),
        "time_s": settings.TIME,
        "share": Column(label="share of the step", unit="share"),
    },
    figures=[Figure(kind="bars", title="Share of the step", x="batch", y="share", series="phase")],
)
def phases(ask: Ask) -> Iterator[Row]:
    """Yield the time of each phase of a step by batch."""
    for batch in BATCHES:
        profile = ask.profile(settings.trained(settings.A800, batch=batch))
        for phase, time in profile.phases.items() if profile.fits else ():
            if time:
                share = float(time / profile.step_time_s)
                yield {"batch": batch, "phase": phase, "time_s": float(time), "share": share}


def _modules(id_: str, title: str, techniques: Sequence[str]) -> None:
    """Add the time of a decoder layer's modules, forward and backward."""

    @TABLES.add(
        id_,
        title,
        about={
            "row": settings.ROW,
            "phase": Column(label="phase"),
            "module": Column(label="module"),
            "time_s": settings.TIME,
            "share": Column(label="share of the layer", unit="share"),
        },
        figures=[Figure(kind="bars", title="Time", x="module", y="time_s", series="phase", panel="row")],
    )
    def rows(ask: Ask) -> Iterator[Row]:
        for row, phase in product(techniques, ("forward", "backward")):
            times = layer_times(ask.profile(settings.trained(settings.A800, row, batch=2)), phase)
            whole = sum(times.values())
            for module, time in times.items():
                yield {"row": row, "phase": phase, "module": module, "time_s": time, "share": time / whole}


_modules("modules", "Modules of the decoder layers: 7B, batch 2 on an A800, eager attention", ("N",))
_modules("attention", "Modules with eager and with FlashAttention: 7B, batch 2 on an A800", ("N", "F"))


@TABLES.add(
    "recomputation",
    "Recomputation and FlashAttention by batch: 7B, DeepSpeed on 8 A800",
    about={"row": settings.ROW, "batch": settings.BATCH, **OUTCOME},
    figures=[Figure(**BY_BATCH, series="row", log=frozenset("x"))],
)
def recomputation(ask: Ask) -> Iterator[Row]:
    """Yield what recomputation and FlashAttention cost and save by batch."""
    for row, batch in product(("N", "R", "F", "F+R", "F+Z2", "F+R+Z2"), BATCHES):
        yield {"row": row, "batch": batch, **_outcome(ask.profile(settings.trained(settings.A800, row, batch=batch)))}


_grid("finetuning", "LoRA and QLoRA with DeepSpeed by technique, batch 1 per GPU", settings.FINETUNING)
# The study's Table VII.
_grid("largest-finetuning", f"LoRA and QLoRA with DeepSpeed: {_LARGEST}", settings.FINETUNING, at_largest=True)
