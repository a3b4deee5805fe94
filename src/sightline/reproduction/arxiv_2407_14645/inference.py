"""Latencies against published ones (B2), what bounds matrix products (B7, B8), and memory technology (B9)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from sightline import catalog
from sightline.exploration.answer import Column
from sightline.loading.checks import with_value
from sightline.profile import LEVEL_NAMES
from sightline.quantities import percent
from sightline.reproduction.answer import ReproducedTable, table
from sightline.reproduction.arxiv_2407_14645.open_settings import VIEW
from sightline.reproduction.arxiv_2407_14645.pictures import against_published
from sightline.reproduction.asking import Ask, Asked, Findings, Tables
from sightline.reproduction.open_settings import taken
from sightline.reproduction.outcome import Interpretation
from sightline.reproduction.statements import judged

A100, H100 = "a100-sxm-80gb", "h100-sxm-80gb"
LONG_PROMPT = 512
"""Tokens of a prompt whose prefill the source calls compute-bound."""
FLAT = 0.05
"""A gain beyond the knee of less than this counts as none."""
FAULTY: Mapping[str, str] = {"llama-2-13b": "its series is faster than 7B's"}
"""Why no published latency of a model counts: even the others of its series are no measurement of it."""
ABOUT: Mapping[str, Column] = {
    "model": Column(label="model"),
    "device": Column(label="device"),
    "devices": Column(label="devices"),
    "batch": Column(label="batch"),
    "prompt_tokens": Column(label="prompt", unit="tokens"),
    "output_tokens": Column(label="output", unit="tokens"),
    "measured_s": Column(label="published", unit="s"),
    "predicted_s": Column(label="predicted", unit="s"),
    "error": Column(label="error", unit="share"),
    "left_out": Column(label="left out"),
    "source": Column(label="source"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published latency."""

    scenario: Asked
    measured_s: float
    source: str

    @property
    def model(self) -> str:
        """Its name."""
        return str(self.scenario["model"])


def published() -> list[Published]:
    """Return the published latencies of Llama-2, as the ledger of the source has them."""
    stated = catalog.entry("findings", "2407.14645")["latencies"]
    found = []
    for series in stated["measured"]:
        for row in series["rows"]:
            values = dict(zip(stated["columns"], row, strict=True))
            device, measured = values.pop("device"), values.pop("latency_s")
            scenario: dict[str, Any] = {"workload": {"task": "generate"}, "plan": dict(series["plan"])}
            for key, value in values.items():
                scenario = with_value(scenario, key, value)
            scenario["cluster"] = f"{values['plan.tensor_parallel']}x {device}"
            found.append(Published(scenario=scenario, measured_s=measured, source=series["source"]))
    return found


def b2(ask: Ask) -> list[Interpretation]:
    """Return the mean error of the latencies, those of faulty series left out."""
    rows = list(latencies(ask).answer.rows)
    counted = [row for row in rows if not row["left_out"]]
    by_kind: dict[str, list[float]] = {}
    for row in counted:
        by_kind.setdefault(f"{row['model']} on {row['device']}", []).append(abs(row["error"]))
    said = ", ".join(f"{name} {percent(fmean(errors), 1)} of {len(errors)}" for name, errors in by_kind.items())
    sentence = (
        f"Mean errors: {said}. The {len(rows) - len(counted)} published latencies of 13B are left out, because most "
        "are below those of 7B under the same settings, so that nothing judges 13B; over all published latencies the "
        f"mean error is {percent(_mean_error(rows), 1)}."
    )
    return [Interpretation(values=[_mean_error(counted)], sentence=sentence)]


def _mean_error(rows: Sequence[Mapping[str, Any]]) -> float:
    return fmean(abs(row["error"]) for row in rows)


def latencies(ask: Ask) -> ReproducedTable:
    """Return every published latency beside ours."""
    rows = []
    for one in published():
        count, device = one.scenario["cluster"].split("x ")
        predicted = float(ask.profile(one.scenario).latency_s)
        rows.append(
            {
                "model": one.model,
                "device": device,
                "devices": int(count),
                **{key: one.scenario["workload"][key] for key in ("batch", "prompt_tokens", "output_tokens")},
                "measured_s": one.measured_s,
                "predicted_s": predicted,
                "error": predicted / one.measured_s - 1,
                "left_out": FAULTY.get(one.model, ""),
                "source": one.source,
            }
        )
    title = "Latencies of Llama-2 on A100 and H100"
    picture = against_published(title, series="model", panel="device")
    return table("latencies", title, rows, about=ABOUT, figures=[picture], status="published")


def b7(ask: Ask) -> list[Interpretation]:
    """Return whether most matrix products of long prefills are compute-bound, and those of decode memory-bound."""
    rows = list(ask.study("bound-by").rows)
    statements, told = {}, []
    for device in (A100, H100):
        mine = [row for row in rows if row["device"] == device]
        prefill = [row for row in mine if row["phase"] == "prefill" and row["prompt_tokens"] >= LONG_PROMPT]
        decode = [row for row in mine if row["phase"] == "decode" and row["batch"] == 1]
        computing = [row for row in prefill if row["bound_level"] == "compute"]
        waiting = [row for row in decode if row["bound_level"] != "compute"]
        statements[f"most of a prefill are compute-bound on {device}"] = len(computing) > len(prefill) / 2
        statements[f"those of a decode are memory-bound on {device}"] = len(waiting) == len(decode)
        told.append(
            f"{device}: prefill {_shapes(computing)} compute-bound, {_shapes(prefill, but=computing)} memory-bound; "
            f"decode {_shapes(waiting)} memory-bound"
        )
    return [judged(statements, f"Prompts of {LONG_PROMPT} tokens or more, and one sequence: {'. '.join(told)}.")]


def _shapes(rows: Sequence[Mapping[str, Any]], but: Sequence[Mapping[str, Any]] = ()) -> str:
    names = dict.fromkeys(row["matmul"] for row in rows if row not in but)
    return ", ".join(names) or "none"


def b8(ask: Ask) -> list[Interpretation]:
    """Return the share of matrix products that memory bounds on H100 over that on A100."""
    told = ask.study("bound-by").summary
    (a100, h100), (low, high) = (
        [told[key][device] for device in (A100, H100)] for key in ("memory_bound_share", "ridge_flops_per_byte")
    )
    sentence = (
        f"Memory bounds {percent(h100)} of matrix products on H100 (ridge point {high:.0f}) and {percent(a100)} on "
        f"A100 ({low:.0f})."
    )
    return [Interpretation(values=[h100 / a100], sentence=sentence)]


def b9(ask: Ask) -> list[Interpretation]:
    """Return whether latency falls with the memory and then flattens at a level that is named."""
    told = ask.study("dram", view=VIEW.first.value).summary
    knees, to, beyond = (told[key][VIEW.first.value] for key in ("knee", "gain_to_knee", "gain_beyond_knee"))
    statements, said = {}, []
    for model, knee in knees.items():
        statements[f"{model} has a knee"] = knee is not None
        if knee is None:
            continue
        statements[f"{model} gains up to it"] = to[model] > 1 + FLAT
        statements[f"{model} gains nothing beyond it"] = beyond[model] < 1 + FLAT
        said.append(
            f"{model} is {to[model]:.1f} times faster at {knee['bandwidth'] / 1e12:.1f} TB/s, between "
            f"{knee['last_memory_before']} and {knee['first_memory_beyond']}, than with the slowest memory, and "
            f"{percent(beyond[model] - 1, 1)} faster beyond, where "
            f"{LEVEL_NAMES.get(knee['level'], knee['level'])} binds"
        )
    return [judged(statements, f"In the ideal view {'; '.join(said)}.", taken(VIEW.first))]


def bounds(ask: Ask) -> ReproducedTable:
    """Return the study of what bounds each matrix product."""
    return ReproducedTable(id="bound-by", answer=ask.study("bound-by"))


def memories(ask: Ask) -> ReproducedTable:
    """Return the study of memory technology."""
    return ReproducedTable(id="dram", answer=ask.study("dram", view="ideal"))


FINDINGS: Findings = {"B2": b2, "B7": b7, "B8": b8, "B9": b9}
TABLES: Tables = {"latencies": latencies, "bound-by": bounds, "dram": memories}
