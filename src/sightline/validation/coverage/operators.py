"""Single operators on every device: usual sizes, in every format that an operator may have."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from sightline.cost.families import family_with, is_own
from sightline.prediction.operators.predict import predict_operator
from sightline.scenario import Device
from sightline.scenario.cluster import COLLECTIVES
from sightline.scenario.operation import (
    CACHE_DTYPES,
    COPY_DIRECTIONS,
    DTYPE_FORMATS,
    ELEMENTWISE,
    FORMATS,
    MODEL_DTYPES,
    PLAIN_DTYPES,
)
from sightline.validation.coverage.cell import Cell, Question, cell

RANKS = 8
"""Devices of a collective, where a server holds as many."""
_HEADS = {"heads": 32, "kv_heads": 8, "head_dim": 128}
_PROMPT = {"batch": 1, "query_tokens": 2048, "context_tokens": 2048, **_HEADS}
_STEP = {"batch": 32, "query_tokens": 1, "context_tokens": 2048, **_HEADS}
_LATENT_STEP = {**_STEP, "heads": 128, "kv_heads": 1, "head_dim": 576, "value_dim": 512, "latent": True}
_EXPERTS = {"experts": 8, "n": 4096, "k": 4096, "per_token": 2}
_PRODUCTS: Mapping[str, Mapping[str, Any]] = {
    "matmul": {"operator": "matmul", "m": 4096, "n": 4096, "k": 4096},
    "matmul of few rows": {"operator": "matmul", "m": 16, "n": 4096, "k": 4096},
    "experts of prompts": {"operator": "grouped_matmul", "rows": 8192, **_EXPERTS},
    "experts of decoding": {"operator": "grouped_matmul", "rows": 64, **_EXPERTS},
}
_ATTENTION: Mapping[str, Mapping[str, Any]] = {
    "attention of prompts": _PROMPT,
    "attention of decoding": _STEP,
    "latent attention of decoding": _LATENT_STEP,
}


_PARTS: Mapping[str, str] = {
    **dict.fromkeys(("matmul", "matmul of few rows"), "matmul"),
    **dict.fromkeys(("experts of prompts", "experts of decoding"), "grouped"),
    "attention of prompts": "prefill_attention",
    "attention of decoding": "decode_attention",
    "latent attention of decoding": "latent_decode_attention",
}
"""The part of a calibration with an operator's constants; those of the others are element-wise."""


def operator_cells(device: Device) -> Iterator[Cell]:
    """Yield the cell of every operator and format on a device, with why it is not calibrated."""
    for what, asked in groupby(operator_questions(device), key=lambda one: one[0]):
        cells = [cell("operators", device.name, what, question, _answer, dtype=dtype) for _, dtype, question in asked]
        measured = [one.dtype for one in cells if one.status == "calibrated"]
        yield from (replace(one, why=one.why or _why(one, device, measured)) for one in cells)


def _why(found: Cell, device: Device, measured: Sequence[str]) -> str:
    """What keeps an operator in one format from being calibrated; ``measured`` are its calibrated formats."""
    if found.status == "calibrated":
        return ""
    if found.status == "datasheet-only":
        return "the operator was measured neither on the device nor on a relative of it"
    if measured:
        return f"measured in {', '.join(measured)} alone"
    if found.what in COLLECTIVES:
        return "constants are those of a relative, of links in general or of another collective"
    part = _PARTS.get(found.what, "elementwise")
    family = family_with(device, part)
    if family is None or is_own(device, family, part):
        return "other operators, sizes or formats were measured"
    return f"constants are those of a relative, {family}"


def operator_questions(device: Device) -> Iterator[tuple[str, str, Question]]:
    """Yield every operator, its format, and the scenario that asks for it."""
    half = next(dtype for dtype in (*reversed(MODEL_DTYPES), *PLAIN_DTYPES) if dtype in device.peak_flops)
    for what, sizes in _PRODUCTS.items():
        for name, typed in _formats(half).items():
            yield what, name, _on(device, {**sizes, **typed})
    for what, sizes in _ATTENTION.items():
        for name, typed in _caches(half).items():
            yield what, name, _on(device, {"operator": "attention", **sizes, **typed})
    for kernel in ELEMENTWISE:
        for dtype in PLAIN_DTYPES:
            yield kernel, dtype, _on(device, {"operator": kernel, "elements": 2**24, "dtype": dtype})
    for direction in COPY_DIRECTIONS[1:]:
        copy = {"operator": "copy", "elements": 2**24, "dtype": half, "direction": direction}
        yield f"copy {direction}", half, _on(device, copy)
    for collective in COLLECTIVES:
        yield collective, "", _on(device, {"operator": collective, "bytes": 2**26}, RANKS)


def _formats(half: str) -> Mapping[str, Mapping[str, str]]:
    """Formats of products: those that a dtype stands for, and others by name, of products between ``half`` types."""
    stood_for = {dtype: {"dtype": dtype} for dtype in DTYPE_FORMATS}
    named = [name for name in FORMATS if name not in (*DTYPE_FORMATS, *DTYPE_FORMATS.values())]
    return {**stood_for, **{name: {"dtype": half, "format": name} for name in named}}


def _caches(half: str) -> Mapping[str, Mapping[str, str]]:
    """Types of attention, and those of its cache where that has another."""
    plain = {dtype: {"dtype": dtype} for dtype in PLAIN_DTYPES}
    return {**plain, **{f"{half}+kv-{kept}": {"dtype": half, "kv_dtype": kept} for kept in CACHE_DTYPES}}


def _on(device: Device, workload: Mapping[str, Any], count: int = 1) -> Question:
    return {"cluster": f"{count}x {device.name}", "workload": {"task": "operator", **workload}}


def _answer(scenario: Any) -> tuple[str, str]:
    profile = predict_operator(scenario)
    return str(profile.evidence), " ".join(profile.warnings)
