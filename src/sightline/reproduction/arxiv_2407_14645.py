"""The findings and tables of arXiv 2407.14645."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose, prod
from statistics import fmean
from typing import Any

from sightline import catalog
from sightline.exploration.node_narrative import PUBLISHED_ORDER, SATURATED
from sightline.exploration.node_times import ONE_PLAN
from sightline.exploration.studies.a100_to_b200 import OF_2021
from sightline.exploration.study_answer import Column, Figure
from sightline.loading.checks import with_value
from sightline.profile import LEVEL_NAMES
from sightline.quantities import GIB, percent
from sightline.reproduction.asking import Ask, Asked, Assumption, Findings, Row, Source, Tables
from sightline.reproduction.outcomes import Choice, Interpretation, OpenSetting, judged, taken
from sightline.validation.cases import Answer

VIEW: OpenSetting[str] = OpenSetting(
    name="view of the devices", choices={"ideal view": "ideal", "calibrated view": "calibrated"}
)
PLAN: OpenSetting[str] = OpenSetting(
    name="plan at technology nodes",
    choices={"one plan at all nodes": ONE_PLAN, "the plan searched again at each node": "training"},
)
"""By the task of the study of nodes."""
SCALING: OpenSetting[str] = OpenSetting(
    name="scaling from node to node",
    choices={"equal factors at each step": "ideal", "foundries' claims": "vendor"},
)


def against_published(title: str, *, series: str, panel: str = "") -> Figure:
    """Return predicted over published times, with a line where both are equal."""
    return Figure(
        kind="points",
        title=title,
        x="measured_s",
        y="predicted_s",
        series=series,
        panel=panel,
        line="measured_s",
        log=frozenset({"x", "y"}),
    )


FINDINGS, TABLES = Findings(), Tables()
A100, H100 = "a100-sxm-80gb", "h100-sxm-80gb"
LONG_PROMPT = 512
"""Tokens of a prompt whose prefill the source calls compute-bound."""
LATENCIES = "Latencies of Llama-2 on A100 and H100"
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


ALL_SIZES, SCALED = "arXiv 2205.05198, table 5", "arXiv 2104.04473, table 1"
TIMES = {ALL_SIZES: "korthikanti-2022-table5", SCALED: "narayanan-2021-table1"}
"""Suites of published step times of GPT on A100s."""
PUBLISHED_TIMES: OpenSetting[Sequence[str]] = OpenSetting(
    name="published step times",
    choices={ALL_SIZES: [ALL_SIZES], f"{ALL_SIZES} and {SCALED}": [ALL_SIZES, SCALED]},
)
MEMORY_SUITES = ("korthikanti-2022-fig1", "korthikanti-2022-fig7")
"""Suites of published activations by recomputation."""


@FINDINGS.add(PUBLISHED_TIMES)
def b1(ask: Ask, tables: Choice[Sequence[str]]) -> Interpretation:
    """Return the mean error of step times: over the table with all four sizes, and over both tables."""
    sizes = [abs(answer.error) for source in tables.value for answer in _answers(ask, TIMES[source])]
    mean, most = (percent(size, 1) for size in (fmean(sizes), max(sizes)))
    sentence = f"{len(sizes)} steps are predicted with errors of {mean} in the mean, {most} at most."
    return Interpretation(values=[fmean(sizes)], sentence=sentence)


@FINDINGS.add()
def b3(ask: Ask) -> Interpretation:
    """Return the errors of activations by recomputation; none where their order is another."""
    errors = [abs(answer.error) for suite in MEMORY_SUITES for answer in _answers(ask, suite)]
    study = ask.study("memory-footprint")
    by_model: dict[str, dict[str, float]] = {}
    for row in study.rows:
        by_model.setdefault(row["name"], {})[row["technique"]] = row["activations_bytes"]
    in_order = all(of["full"] < of["selective, sequence-parallel"] < of["none"] for of in by_model.values())
    said = ", ".join(
        f"{name} {' < '.join(f'{of[how] / GIB:.1f}' for how in ('full', 'selective, sequence-parallel', 'none'))}"
        for name, of in by_model.items()
    )
    sentence = (
        f"The largest of {len(errors)} errors is {percent(max(errors), 1)}; GiB of full, selective (with sequence "
        f"parallelism) and no recomputation: {said}."
    )
    return Interpretation(values=errors if in_order else [None], sentence=sentence)


@TABLES.add(
    "training-times",
    "Training times of GPT on A100s",
    about={
        "source": Column(label="source"),
        "parameters": Column(label="parameters"),
        "devices": Column(label="A100s"),
        "recompute": Column(label="recomputation"),
        **{key: ABOUT[key] for key in ("measured_s", "predicted_s", "error")},
        "split": Column(label="part", values={"fit": "fitted on", "test": "not fitted on"}),
    },
    figures=[against_published("Step times of GPT on A100s", series="recompute")],
    status="published",
)
def times(ask: Ask) -> Iterator[Row]:
    """Yield every published step time beside ours."""
    for source, suite in TIMES.items():
        yield from sorted(_rows(ask, source, suite), key=lambda row: (row["parameters"], row["recompute"]))


def _rows(ask: Ask, source: str, suite: str) -> Iterator[dict[str, Any]]:
    for answer in _answers(ask, suite):
        asked = answer.case.scenario
        yield {
            "source": source,
            "parameters": float(ask.profile(asked).scenario.model.parameters),
            "devices": int(str(asked["cluster"]["devices"]).split("x")[0]),
            "recompute": asked["plan"]["recompute"],
            "measured_s": answer.case.measured,
            "predicted_s": answer.predicted,
            "error": answer.error,
            "split": answer.case.split,
        }


TABLES.add_study("memory-footprint", "memory", status="published")


def _answers(ask: Ask, suite: str) -> list[Answer]:
    """The answered cases of a suite, of both its parts."""
    return [answer for result in ask.suite(suite) for answer in result.answers if answer.predicted is not None]


LARGEST_FIRST: Mapping[str, tuple[str, ...]] = {
    "arithmetic": ("compute", "precision"),
    "memory": ("memory_bandwidth", "recomputation", "memory_capacity"),
    "links": ("interconnect", "domain"),
}
"""What the source explains the gain by, in its order, and the factors that belong to it."""
ROUNDING = 1e-9


@FINDINGS.add()
def b4(ask: Ask) -> Interpretation:
    """Return whether the gain is one in both views, its factors multiply to it, and which of them are the largest."""
    told = ask.study("a100-to-b200").summary
    statements, said = {}, []
    for view, factors in told["factors_by_view"].items():
        gain = told["gains"][view][OF_2021]
        groups = {name: prod(factors[one] for one in of) for name, of in LARGEST_FIRST.items()}
        ranked = sorted(groups, key=lambda name: -groups[name])
        statements[f"there is a gain in the {view} view"] = gain > 1
        statements[f"factors multiply to it in the {view} view"] = isclose(prod(factors.values()), gain, rel_tol=1e-6)
        statements[f"none of them loses in the {view} view"] = min(factors.values()) > 1 - ROUNDING
        statements[f"{', then '.join(groups)} gain most in the {view} view"] = ranked == list(groups)
        parts = " x ".join(f"{name} {factor:.2f}" for name, factor in [("plan", factors["plan"]), *groups.items()])
        said.append(f"{view} view {gain:.1f} = {parts}")
    sentence = f"Over A100s under a plan of 2021: {'; '.join(said)}. Model, baseline and plan are ours."
    return judged(statements, sentence)


@FINDINGS.add(VIEW, PLAN, SCALING)
def b5(ask: Ask, *case: Choice[str]) -> Interpretation:
    """Return whether logic alone saturates, and whether HBM4 and faster links bring half of its gain back."""
    view, task, scaling = (choice.value for choice in case)
    told = ask.study("technology-nodes").summary
    early, late, ratio = (
        told[key][view][scaling][task]
        for key in ("gain_per_node_before_3nm", "gain_per_node_after_3nm", "after_over_before")
    )
    slow, *_, fast = early
    old, *_, new = early[slow]
    peak = told["peak_gain_per_node"][view][scaling]
    statements = {
        f"with {old} a node gains less than half after 3 nm": ratio[slow][old] < SATURATED,
        f"{new} and {fast} bring at least half back": ratio[fast][new] >= SATURATED,
    }
    alone, together, of_peak = (
        " and ".join(map(percent, of))
        for of in ((early[slow][old], late[slow][old]), (early[fast][new], late[fast][new]), peak)
    )
    sentence = (
        f"To 3 nm and after it a node gains {alone} with {old} and {slow}, {together} with {new} and {fast}; the peak "
        f"itself gains {of_peak}."
    )
    return judged(statements, sentence)


@FINDINGS.add(VIEW, PLAN, SCALING)
def b6(ask: Ask, *case: Choice[str]) -> Interpretation:
    """Return how much of the order compute, memory, network is found from node to node."""
    view, task, scaling = (choice.value for choice in case)
    orders = ask.study("technology-nodes").summary["sequence"][view][scaling][task]
    slow, found = next(iter(orders.items()))
    sentence = (
        f"From 12 nm to 1 nm with HBM2, and then with HBM4, most of the time is bound by {', then '.join(found)}, with "
        f"{slow}."
    )
    return Interpretation(values=[in_order(found, PUBLISHED_ORDER) / len(PUBLISHED_ORDER)], sentence=sentence)


def in_order(found: Sequence[str], wanted: Sequence[str]) -> int:
    """Return how many of the wanted are found in their order."""
    best = 0
    for place, name in enumerate(wanted):
        if name in found:
            rest = found[list(found).index(name) + 1 :]
            best = max(best, 1 + in_order(rest, wanted[place + 1 :]))
    return best


TABLES.add_study("a100-to-b200")
TABLES.add_study("technology-nodes")


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


@FINDINGS.add()
def b2(ask: Ask) -> Interpretation:
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
    return Interpretation(values=[_mean_error(counted)], sentence=sentence)


def _mean_error(rows: Sequence[Mapping[str, Any]]) -> float:
    return fmean(abs(row["error"]) for row in rows)


@TABLES.add(
    "latencies",
    LATENCIES,
    about=ABOUT,
    figures=[against_published(LATENCIES, series="model", panel="device")],
    status="published",
)
def latencies(ask: Ask) -> Iterator[Row]:
    """Yield every published latency beside ours."""
    for one in published():
        count, device = one.scenario["cluster"].split("x ")
        predicted = float(ask.profile(one.scenario).latency_s)
        yield {
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


@FINDINGS.add()
def b7(ask: Ask) -> Interpretation:
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
    return judged(statements, f"Prompts of {LONG_PROMPT} tokens or more, and one sequence: {'. '.join(told)}.")


def _shapes(rows: Sequence[Mapping[str, Any]], but: Sequence[Mapping[str, Any]] = ()) -> str:
    names = dict.fromkeys(row["matmul"] for row in rows if row not in but)
    return ", ".join(names) or "none"


@FINDINGS.add()
def b8(ask: Ask) -> Interpretation:
    """Return the share of matrix products that memory bounds on H100 over that on A100."""
    told = ask.study("bound-by").summary
    (a100, h100), (low, high) = (
        [told[key][device] for device in (A100, H100)] for key in ("memory_bound_share", "ridge_flops_per_byte")
    )
    sentence = (
        f"Memory bounds {percent(h100)} of matrix products on H100 (ridge point {high:.0f}) and {percent(a100)} on "
        f"A100 ({low:.0f})."
    )
    return Interpretation(values=[h100 / a100], sentence=sentence)


@FINDINGS.add()
def b9(ask: Ask) -> Interpretation:
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
    return judged(statements, f"In the ideal view {'; '.join(said)}.", taken(VIEW.first))


TABLES.add_study("bound-by")
TABLES.add_study("dram", view="ideal")

SOURCE = Source(
    findings=FINDINGS,
    tables=TABLES,
    assumptions=(
        Assumption(
            "The numeric tables of the source were not available; the studies are those of `sightline explore`."
        ),
        Assumption(
            "Open settings, such as one plan or a searched plan, are shown in every way; the row states which "
            "one is judged.",
            FINDINGS,
        ),
        Assumption(
            "For A100 to B200, workload and baseline are our choice; the source states neither.",
            ("B4", "a100-to-b200"),
        ),
    ),
)
