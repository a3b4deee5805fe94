"""Memory of a training step by recomputation, and what fits which device (arXiv 2205.05198; 2407.14645, section 4).

The models and plans are those of arXiv 2205.05198, table 3, whose figures 1 and 7 say what recomputation saves.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from sightline import catalog
from sightline.exploration.base import StudyRequest, base_of, in_view, said_of
from sightline.exploration.study_answer import (
    Column,
    Figure,
    StudyAnswer,
    View,
    columns_of,
    memory_name,
    result_columns,
)
from sightline.loading import scenario_from_mapping
from sightline.prediction import predict
from sightline.profile import MEMORY_PARTS, TRAINING, Profile
from sightline.quantities import GIB
from sightline.scenario import Scenario

BASE: Mapping[str, Any] = {
    "workload": {"task": "pretrain", "sequence_length": 2048},
    "plan": {"framework": "megatron", "framework_version": "2022-05", "dtype": "fp16", "attention": "eager"},
}
A100, H100, B200 = DEVICES = ("a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb")
PARTS = tuple(part for part in MEMORY_PARTS if part != "kv_cache")
"""Parts of memory that a training step has."""
ABOUT: Mapping[str, Column] = {
    **result_columns(TRAINING),
    **{f"{part}_bytes": Column(label=memory_name(part), unit="B") for part in PARTS},
    "name": Column(label="model"),
    "model": Column(label="catalog entry"),
    "technique": Column(
        label="recomputation",
        values={"none, sequence-parallel": "none + SP", "selective, sequence-parallel": "selective + SP"},
    ),
    "total_bytes": Column(label="memory", unit="B"),
    "device_memory_bytes": Column(label="device memory", unit="B"),
    "most_micro_batch": Column(label="largest micro-batch"),
    "layer_activations_bytes": Column(label="layer activations", unit="B"),
    "layer_activations_share": Column(label="layer activations relative to none", unit="share"),
    "published_share": Column(label="published", unit="share"),
}
LARGEST_MICRO_BATCH = 128
"""Micro-batches up to this are tried."""
MICRO_BATCHES_PER_STAGE = 2
"""With so many a pipeline is as full as it gets, an interleaved one too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained:
    """A model as arXiv 2205.05198 trains it: one replica, tensor parallelism inside of nodes of eight."""

    model: str
    name: str
    devices: int
    pipeline_parallel: int
    virtual_stages: int
    micro_batch: int


MODELS = (
    Trained(model="megatron-22b", name="22B", devices=8, pipeline_parallel=1, virtual_stages=1, micro_batch=4),
    Trained(model="gpt-3-175b", name="175B", devices=64, pipeline_parallel=8, virtual_stages=3, micro_batch=1),
    Trained(model="turing-530b", name="530B", devices=280, pipeline_parallel=35, virtual_stages=3, micro_batch=1),
    Trained(model="megatron-1t", name="1T", devices=512, pipeline_parallel=64, virtual_stages=1, micro_batch=1),
)
NONE, PARALLEL = "none", "none, sequence-parallel"
SELECTIVE, BEST, FULL = "selective", "selective, sequence-parallel", "full"
TECHNIQUES: Mapping[str, Mapping[str, Any]] = {
    NONE: {"recompute": "none", "sequence_parallel": False},
    PARALLEL: {"recompute": "none", "sequence_parallel": True},
    SELECTIVE: {"recompute": "selective", "sequence_parallel": False},
    BEST: {"recompute": "selective", "sequence_parallel": True},
    FULL: {"recompute": "full", "sequence_parallel": False},
}
"""The bars of the paper's figure 7, by name."""
VARIED = (
    *("model", "cluster", "workload.task", "workload.global_batch", "plan.tensor_parallel", "plan.pipeline_parallel"),
    *("plan.data_parallel", "plan.virtual_stages", "plan.micro_batch", "plan.recompute", "plan.sequence_parallel"),
)


def study(request: StudyRequest) -> StudyAnswer:
    """Return the memory of each model's fullest device by technique, and the largest micro-batch that fits."""
    base = base_of(BASE, request, VARIED)
    models = MODELS[:2] if request.quick else MODELS
    devices = (A100, B200) if request.quick else DEVICES
    rows = []
    cases = list(product(request.views("calibrated"), models))
    for view, trained in request.progress.over(cases, "predicting"):
        rows += list(_of_model(in_view(base, view), view, trained, devices, compared=base == BASE))
    if not rows:
        request.progress.check()
    return StudyAnswer(
        study="memory-footprint",
        title="Memory of a training step by recomputation",
        axes={
            "model": [trained.model for trained in models],
            "technique": list(TECHNIQUES),
            "cluster.device": list(devices),
        },
        columns=columns_of(rows),
        about=ABOUT,
        summary=_summary(rows),
        assumptions=_assumptions(request, base),
        reading=_reading(rows),
        figures=_figures(rows[0]["view"]),
        shown=("view", "name", "technique", "device", "activations_bytes", "total_bytes", "fits", "most_micro_batch"),
    )


def _of_model(
    base: Mapping[str, Any], view: View, trained: Trained, devices: Sequence[str], *, compared: bool
) -> Iterator[dict[str, Any]]:
    """Rows of a model: by technique, then by device; compared with the paper where the training is the paper's."""
    whole: dict[str, float] = {}
    for technique, how in TECHNIQUES.items():
        for device in devices:
            scenario = scenario_from_mapping(_scenario(base, trained, how, device))
            profile = predict(scenario)
            layers = float(profile.stages[0].items["layer activations"])
            share = layers / whole.setdefault(device, layers)
            yield {
                "view": view,
                "model": trained.model,
                "name": trained.name,
                "technique": technique,
                **how,
                "device": device,
                "micro_batch": trained.micro_batch,
                **{f"{part}_bytes": float(profile.memory_bytes[part]) for part in PARTS},
                "total_bytes": float(profile.memory_bytes["total"]),
                "device_memory_bytes": float(scenario.cluster.device.memory_bytes),
                "fits": bool(profile.fits),
                "most_micro_batch": _most_micro_batch(scenario),
                "layer_activations_bytes": layers,
                "layer_activations_share": share,
                "published_share": _published(profile, how) if compared else float("nan"),
                "step_time_s": float(profile.step_time_s),
            }


def _scenario(base: Mapping[str, Any], trained: Trained, how: Mapping[str, Any], device: str) -> dict[str, Any]:
    plan = {
        "tensor_parallel": 8,
        "pipeline_parallel": trained.pipeline_parallel,
        "data_parallel": 1,
        "virtual_stages": trained.virtual_stages,
        "micro_batch": trained.micro_batch,
    }
    batch = MICRO_BATCHES_PER_STAGE * trained.pipeline_parallel * trained.micro_batch
    return {
        **base,
        "model": trained.model,
        "cluster": f"{trained.devices}x {device}",
        "workload": {**base["workload"], "global_batch": batch},
        "plan": {**base["plan"], **plan, **how},
    }


def _most_micro_batch(scenario: Scenario) -> int:
    """The largest micro-batch that fits in a pipeline that is as full; 0 where none does."""
    tried = np.arange(1, LARGEST_MICRO_BATCH + 1)
    batch = MICRO_BATCHES_PER_STAGE * scenario.plan.pipeline_parallel * LARGEST_MICRO_BATCH
    profile = predict(
        replace(
            scenario,
            workload=replace(scenario.workload, global_batch=int(batch)),
            plan=replace(scenario.plan, micro_batch=tried),
        )
    )
    fitting = tried[np.broadcast_to(profile.fits, tried.shape)]
    return int(fitting.max(initial=0))


def _published(profile: Profile, how: Mapping[str, Any]) -> float:
    """What figure 7 of the paper says of the layers' activations, over those of no technique; NaN where it does not."""
    figure = catalog.entry("published", "korthikanti-2022-fig7")
    asked = {"model.hidden_size": profile.scenario.model.hidden_size}
    asked |= {f"plan.{key}": value for key, value in how.items()}
    for values in figure["rows"]:
        row = dict(zip(figure["columns"], values, strict=True))
        if all(row[key] == value for key, value in asked.items()):
            return float(row["measured.relative_layer_activations"])
    return float("nan")


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row in _drawn(rows, A100):
        of_model = found.setdefault(row["name"], {"activations_share": {}, "fits": {}, "most_micro_batch": {}})
        of_model["activations_share"][row["technique"]] = row["layer_activations_share"]
    for row in rows:
        if row["view"] == rows[0]["view"]:
            for key in ("fits", "most_micro_batch"):
                found[row["name"]][key].setdefault(row["technique"], {})[row["device"]] = row[key]
    return {"models": found, "against_published": _against_published(rows)}


def _against_published(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How far the shares of activations are from the paper's drawing."""
    off = [
        abs(row["layer_activations_share"] - row["published_share"])
        for row in _drawn(rows, A100)
        if not np.isnan(row["published_share"])
    ]
    source = catalog.entry("published", "korthikanti-2022-fig7")["source"]
    return {"source": source, "cases": len(off), "mean": float(np.mean(off)), "largest": max(off)} if off else {}


def _drawn(rows: Sequence[Mapping[str, Any]], device: str) -> list[Mapping[str, Any]]:
    """Rows of the first view, on one device."""
    return [row for row in rows if row["view"] == rows[0]["view"] and row["device"] == device]


def _assumptions(request: StudyRequest, base: Mapping[str, Any]) -> tuple[str, ...]:
    more: Mapping[View, str] = {
        "calibrated": "training uses Megatron-LM of May 2022, with its kernels and memory use",
        "ideal": "fused norms, softmax and activations store less, and gradients are in 16 bits",
    }
    papers = "As in the paper, sequences have 2,048 tokens, training is in fp16 with Adam, and attention is not fused."
    return (
        *(said_of(view, more[view]) for view in request.views("calibrated")),
        "Models and plans are those of arXiv 2205.05198, table 3: tensor parallelism of 8, and one replica.",
        papers if base == BASE else "Workload or plan differs from the paper, so nothing is compared with its figures.",
        "A pipeline has twice as many micro-batches as stages, so its first stage holds the maximum number.",
        "Bytes are the peak of the fullest device.",
        "Every device uses the same layout; larger memory may allow a layout that needs less.",
    )


def _reading(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    on_a100 = {(row["name"], row["technique"]): row for row in _drawn(rows, A100)}
    names = list(dict.fromkeys(name for name, _ in on_a100))
    lines = []
    for technique, words in ((BEST, "Selective recomputation with sequence parallelism"), (FULL, "Full recomputation")):
        shares = [100 * on_a100[name, technique]["layer_activations_share"] for name in names]
        lines.append(
            f"{words} stores {min(shares):.1f} to {max(shares):.1f} % of the layer activations without recomputation."
        )
    lines.append(_time_of_recomputation(on_a100, names))
    lines += [_what_fits(rows, device) for device in dict.fromkeys(row["device"] for row in rows)]
    off = _against_published(rows)
    if off:
        lines.append(
            f"Compared with figure 7 of the paper, the shares differ by {100 * off['mean']:.1f} points on "
            f"average over {off['cases']} bars, at most by {100 * off['largest']:.1f}."
        )
    return tuple(lines)


def _time_of_recomputation(on_a100: Mapping[tuple[str, str], Mapping[str, Any]], names: Sequence[str]) -> str:
    slower = {
        technique: [on_a100[name, technique]["step_time_s"] / on_a100[name, NONE]["step_time_s"] - 1 for name in names]
        for technique in (SELECTIVE, FULL)
    }
    selective, full = (f"{100 * min(s):.0f} to {100 * max(s):.0f} %" for s in slower.values())
    return f"Selective recomputation takes {selective} more time on A100s, full recomputation {full}."


def _what_fits(rows: Sequence[Mapping[str, Any]], device: str) -> str:
    """How many models a device holds, in a sentence."""
    of_device = _drawn(rows, device)
    held = {
        technique: sum(row["fits"] for row in of_device if row["technique"] == technique) for technique in TECHNIQUES
    }
    models = len({row["model"] for row in of_device})
    size = of_device[0]["device_memory_bytes"] / GIB
    return (
        f"Of {models} models, {device} ({size:.0f} GiB) fits {held[NONE]} without any technique, "
        f"{held[PARALLEL]} with sequence parallelism, {held[SELECTIVE]} with selective recomputation, "
        f"{held[BEST]} with both, and {held[FULL]} with full recomputation."
    )


def _figures(view: View) -> tuple[Figure, ...]:
    return (
        Figure(
            kind="stacks",
            title="Memory of the fullest A100 by recomputation, with and without sequence parallelism (SP)",
            x="technique",
            y=tuple(f"{part}_bytes" for part in PARTS),
            panel="name",
            where={"view": view, "device": A100},
        ),
        Figure(
            kind="map",
            title="Largest micro-batch that fits",
            x="name",
            y="technique",
            series="most_micro_batch",
            panel="device",
            where={"view": view},
        ),
    )
