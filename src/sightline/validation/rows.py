"""A row of a published table becomes a case: the same way whether the catalog restates it or a data folder holds it.

A row maps dotted scenario keys to values. Beside those it may hold ``model`` (a catalog's name), ``devices`` (their
number), ``device`` (their name), ``measured.<quantity>`` or ``measured.flops_per_s_per_device`` (a rate whose FLOPs
the suite's ``flops`` formula gives), and ``check.flops_per_s_per_device`` (printed next to a measured time). ``stage``
is the pipeline stage that was measured, ``alternative`` the values of a second reading that the source leaves open.
Keys without a dot that are none of these only serve to calculate others.
"""

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from sightline.validation.suite import Case, Split, digest, split_of

Row = Mapping[str, Any]

SHAPE = ("model.hidden_size", "model.num_hidden_layers", "model.num_attention_heads")

NEEDED = {
    # Those of the model only where it is not a catalog's.
    "pretrain": (*SHAPE, "model.vocab_size", "workload.sequence_length", "workload.global_batch", "devices"),
    "finetune": ("workload.sequence_length", "workload.global_batch", "devices"),
    "generate": ("workload.batch", "workload.prompt_tokens", "workload.output_tokens", "devices"),
}
"""Numbers that every row must have, by task."""

MOST_LAYERS = 10**5

CALCULATED = ("model.hidden_size", "model.num_attention_heads", "check.flops_per_s_per_device")
"""Numbers that rows are checked by where they have them."""

FAMILY = (*SHAPE, "devices")
"""What rows of one part share, unless the suite's ``split`` says otherwise."""

CONSISTENT_WITHIN = 0.05
"""Largest disagreement between a row's printed FLOP/s and its printed time that is read as one measurement."""


class LeftOutError(Exception):
    """The row is not a usable measurement; the message is the reason."""


def case_of(row: Row, suite: Mapping[str, Any]) -> Case:
    """Return the row as a case of the suite (a catalog entry); raise `LeftOutError` when it is not one."""
    full = {**_constants(suite), **row, **suite.get("set", {})}
    _require_numbers(full, suite)
    _require_usable(full, suite)
    if suite.get("interleaved"):
        _require_positive(full, ["plan.pipeline_parallel"])
        if full["plan.pipeline_parallel"] > 1:
            full["plan.virtual_stages"] = fewest_virtual_stages(full)
    baseline = suite.get("baseline")
    return Case(
        scenario=_scenario(full),
        measured=_measured(full, suite),
        split="test" if suite.get("locked") else _split(full, suite.get("split", {})),
        baseline=None if baseline is None else _scenario({**full, **baseline}),
        alternative=_scenario({**full, **row["alternative"]}) if "alternative" in row else None,
        stage=int(full.get("stage", 0)),
    )


def fewest_virtual_stages(row: Row) -> int:
    """Return the least number above 1 that divides the layers of a pipeline stage; 1 when there is none."""
    layers, stages = row["model.num_hidden_layers"], row["plan.pipeline_parallel"]
    if layers % 1 or stages % 1 or layers > MOST_LAYERS:
        raise LeftOutError(f"{layers:g} layers in {stages:g} stages")
    if layers % stages:
        return 1
    per_stage = int(layers // stages)
    return next((v for v in range(2, per_stage + 1) if per_stage % v == 0), 1)


def is_held_out(row: Row, rule: Mapping[str, Any]) -> bool:
    """Say whether all of the row's wider family is kept from every fit: ``held_out`` names it, ``one_in`` how many."""
    return "held_out" in rule and digest([row.get(key) for key in rule["held_out"]]) % rule["one_in"] == 0


def _split(row: Row, rule: Mapping[str, Any]) -> Split:
    if is_held_out(row, rule):
        return "test"
    family = [row.get(key) for key in rule.get("by", FAMILY)]
    return split_of(*family, seed=rule["seed"]) if "seed" in rule else split_of(*family)


def _constants(suite: Mapping[str, Any]) -> dict[str, Any]:
    """Return what all rows of the suite share, under the keys of a row."""
    flat = {f"{section}.{key}": value for section, keys in suite["scenario"].items() for key, value in keys.items()}
    return flat | {key: suite[key] for key in ("model", "device", "devices") if key in suite}


def _require_numbers(row: Row, suite: Mapping[str, Any]) -> None:
    """Raise `LeftOutError` unless the row has a positive number wherever this module calculates."""
    measured = f"measured.{suite['quantity']}"
    stated = suite.get("columns") or suite["csv"].get("columns", {})
    rate = "measured.flops_per_s_per_device"
    named = "model" in row
    needed = [key for key in NEEDED[suite["scenario"]["workload"]["task"]] if not (named and key.startswith("model."))]
    needed += [rate if rate in stated else measured]
    _require_positive(row, needed)


def _require_positive(row: Row, keys: Iterable[str]) -> None:
    for key in keys:
        if key not in row:
            raise LeftOutError(f"no {key}")
        if not isinstance(row[key], int | float) or not 0 < row[key] < float("inf"):
            raise LeftOutError(f"{key} is {str(row[key])[:40]}")


def _require_usable(row: Row, suite: Mapping[str, Any]) -> None:
    """Raise `LeftOutError` when the row contradicts itself or belongs to another suite."""
    _require_positive(row, [key for key in CALCULATED if key in row])
    hidden, heads = row.get("model.hidden_size", 0), row.get("model.num_attention_heads", 1)
    if hidden % heads:
        raise LeftOutError("heads do not divide the hidden size")
    degrees = [row.get(f"plan.{kind}_parallel", 1) for kind in ("tensor", "pipeline", "context", "data")]
    if "plan.data_parallel" in row and (str in map(type, degrees) or prod(degrees) != row["devices"]):
        raise LeftOutError("parallel degrees do not multiply to the devices")
    low, high = suite.get("csv", {}).get("devices", (1, row["devices"]))
    if not low <= row["devices"] <= high:
        raise LeftOutError("of another suite by its number of devices")
    if any(row.get(key) != value for key, value in suite.get("only", {}).items()):
        raise LeftOutError("of another suite of the source")
    if suite.get("only_held_out") and not is_held_out(row, suite["split"]):
        raise LeftOutError("of another suite of the source")
    if "check.flops_per_s_per_device" in row:
        implied = _time_from_flops(row, "check.flops_per_s_per_device", suite["flops"])
        if abs(row["measured.step_time_s"] / implied - 1) > CONSISTENT_WITHIN:
            raise LeftOutError("printed time and FLOP/s contradict the shape")


def _measured(row: Row, suite: Mapping[str, Any]) -> float:
    key = f"measured.{suite['quantity']}"
    if key in row:
        return float(row[key])
    return _time_from_flops(row, "measured.flops_per_s_per_device", suite["flops"])


def _time_from_flops(row: Row, rate: str, formula: str) -> float:
    """Return seconds per step: the source's FLOPs of a step / (FLOP/s per device x devices)."""
    flops = FORMULAS[formula](
        B=row["workload.global_batch"],
        s=row["workload.sequence_length"],
        h=row["model.hidden_size"],
        L=row["model.num_hidden_layers"],
        V=row["model.vocab_size"],
    )
    return float(flops / (row[rate] * row["devices"]))


def _scenario(row: Row) -> dict[str, Any]:
    """Return the nested mapping of a scenario file: dotted keys unfolded, devices in one phrase."""
    nested: dict[str, Any] = {"model": row["model"]} if "model" in row else {}
    for key, value in row.items():
        section, _, name = key.partition(".")
        if name and section not in ("measured", "check"):
            nested.setdefault(section, {})[name] = value
    nested.setdefault("cluster", {})["devices"] = f"{row['devices']}x {row['device']}"
    return nested


def with_recomputation(*, B: int, s: int, h: int, L: int, V: int) -> float:  # noqa: N803 - the symbols of the papers
    """Return FLOPs of a step with full recomputation: 96 B s L h^2 (1 + s/(6h) + V/(16 L h)).

    arXiv 2104.04473 equation 3, for f = 4h; attention unmasked, logits not recomputed. Leaves out everything that is
    not a matrix multiplication.
    """
    return 96 * B * s * L * h**2 * (1 + s / (6 * h) + V / (16 * L * h))


def model_flops(*, B: int, s: int, h: int, L: int, V: int) -> float:  # noqa: N803 - the symbols of the papers
    """Return the model FLOPs of a step: 72 B s L h^2 (1 + s/(6h) + V/(12 L h)).

    What Megatron-Core prints (its ``num_floating_point_operations``), for f = 4h and as many key as query heads;
    attention unmasked, no recomputation. Leaves out everything that is not a matrix multiplication.
    """
    return 72 * B * s * L * h**2 * (1 + s / (6 * h) + V / (12 * L * h))


FORMULAS = {"with-recomputation": with_recomputation, "model": model_flops}
"""How sources count the FLOPs behind a published TFLOP/s, to get back to the time they measured, by the name that a
suite's ``flops`` key gives. Symbols as in arXiv 2104.04473: B global batch, s sequence length, h hidden size, L layers,
V vocabulary."""
