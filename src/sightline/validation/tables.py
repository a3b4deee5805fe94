"""A row of a published table becomes a case: the same way whether the catalog restates it or a data folder holds it.

A row maps dotted scenario keys to values. Beside those it may hold ``model`` (a catalog's name), ``devices`` (their
number), ``device`` (their name), ``measured.<quantity>`` or ``measured.flops_per_s_per_device`` (a rate whose FLOPs
the suite's ``flops`` formula gives), and ``check.flops_per_s_per_device`` (printed next to a measured time). ``stage``
is the pipeline stage that was measured, ``alternative`` the values of a second reading that the source leaves open.
Keys without a dot that are none of these only serve to calculate others.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from math import isfinite, prod
from pathlib import Path
from typing import Any

from sightline.errors import InputError, reason
from sightline.quantities import show
from sightline.validation.cases import Case, Split, digest, split_of

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


Cells = Mapping[str, str]

DRESSING = re.compile(r"-(hf|instruct|chat|bf16|fp8|nvfp4|mxfp4|awq|gptq)\b.*$")
"""Endings of a repository's name that say how its weights were tuned or stored."""

COUNTED = re.compile(r"(.*?)(?:\s*[*x]\s*(\d+))?", re.DOTALL)
MEMORY = re.compile(r"\s+\d+\s?GB$")


LARGEST = 1e24
"""Of the numbers of a table: an exaflop takes 1e18 operations."""


class Line(dict[str, str]):
    """The cells of a line by column; one that the table lacks is named with the line's place."""

    def __init__(self, cells: Mapping[str, str], place: str) -> None:
        super().__init__(cells)
        self.place = place

    def __missing__(self, column: str) -> str:
        raise InputError(f"{self.place}: column '{column}' is missing")

    def number(self, column: str) -> float:
        """Return a cell that holds a finite number; raise `InputError` for another."""
        try:
            number = float(self[column])
        except ValueError:
            number = float("nan")
        if not isfinite(number):
            raise InputError(f"{self.place}: {column} is {show(self[column])}; allowed: a number")
        return number


def lines_of(path: Path) -> Iterator[Line]:
    """Yield the lines of a table below its header; cells that a short one lacks are empty.

    Raises:
        InputError: It cannot be read.
    """
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            for number, cells in enumerate(csv.DictReader(lines), start=2):
                known = {column: cell or "" for column, cell in cells.items() if column is not None}
                yield Line(known, f"{path} line {number}")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {reason(error)}") from None


def row_of_cells(line: Line, spec: Mapping[str, Any]) -> Row:
    """Return a line of the source's table under our keys; raise `LeftOutError` with why it is none.

    Raise `InputError` naming the line when the table lacks a column.
    """
    cells = Line({**line, **_parts(line, spec.get("parts", {}))}, line.place)
    for rule in spec.get("leave_out", ()):
        if _matches(cells, rule["where"]):
            raise LeftOutError(rule["reason"])
    texts = {key: cells[column] for key, column in spec.get("columns", {}).items()}
    row: dict[str, Any] = {key: scalar(text) for key, text in texts.items() if text}
    for key, rule in spec.get("names", {}).items():
        columns = rule["column"] if isinstance(rule["column"], list) else [rule["column"]]
        row[key] = _name(" ".join(cells[column] for column in columns), rule.get("known", {}))
    if "counted" in spec:
        row |= _devices(cells[spec["counted"]["column"]], spec["counted"]["known"])
    for column, meanings in spec.get("values", {}).items():
        row |= _meaning(meanings, column, cells.get(column))
    for correction in spec.get("corrections", ()):
        if _matches(cells, correction["where"]):
            row |= correction["set"]
    _calculate(row, cells, spec)
    return row


def catalog_name(repository: str) -> str:
    """Return the name our catalog gives a model: "meta-llama/Llama-3.1-8B-Instruct" is llama-3.1-8b."""
    bare = repository.rsplit("/", 1)[-1].strip().lower()
    return DRESSING.sub("", re.sub(r"[\s_]+", "-", bare))


def scalar(text: str) -> int | float | str:
    """Return a table cell as the number it is, or as text; no table has numbers beyond ``LARGEST``."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if abs(number) <= LARGEST else text
    return text


def _parts(cells: Line, rules: Mapping[str, Any]) -> dict[str, str]:
    """Return what the patterns find, where they find nothing what the rule says otherwise."""
    matches = {name: re.search(rule["pattern"], cells[rule["column"]]) for name, rule in rules.items()}
    return {name: match[1] if match else str(rules[name].get("otherwise", "")) for name, match in matches.items()}


def _name(text: str, known: Mapping[str, str]) -> str:
    if not text.strip():
        raise LeftOutError("a name is empty")
    return known.get(text) or catalog_name(text)


def _devices(text: str, known: Mapping[str, str]) -> Row:
    """Return device and number of "3090 24GB * 2"; where memory is not in a known name it is no part of ours."""
    name, number = COUNTED.fullmatch(text.strip()).groups()  # type: ignore[union-attr]  # matches any text
    return {"device": known.get(name) or catalog_name(MEMORY.sub("", name)), "devices": int(number or 1)}


def _meaning(meanings: Mapping[Any, Row], column: str, cell: str | None) -> Row:
    meaning = next((row for value, row in meanings.items() if str(value) == cell), meanings.get("otherwise"))
    if meaning is None:
        raise LeftOutError(f"{column} is {cell or 'empty'}")
    return meaning


def _matches(cells: Cells, where: Mapping[str, Any]) -> bool:
    def allowed(value: Any) -> list[Any]:
        return value if isinstance(value, list) else [value]

    return all(cells.get(column) in [str(wanted) for wanted in allowed(value)] for column, value in where.items())


def _calculate(row: dict[str, Any], cells: Cells, spec: Mapping[str, Any]) -> None:
    """Add what follows from printed numbers; a key whose numbers are missing stays out."""
    for key, factor in spec.get("scale", {}).items():
        if isinstance(row.get(key), int | float):
            row[key] *= factor
    for rule in spec.get("products", ()):
        factors = [row.get(key) for key in rule["of"]]
        if _matches(cells, rule.get("where", {})) and all(isinstance(f, int | float) for f in factors):
            row[rule["key"]] = prod(factors)
    for key, work in spec.get("rates", {}).items():
        done = row.get(work) if isinstance(work, str) else work
        if isinstance(row.get(key), int | float) and isinstance(done, int | float) and row[key] > 0:
            row[key] = done / row[key]
