"""Runs of AIConfigurator's sample under the load that InferenceX sends: a burst, then a closed loop of clients.

The steady loop of the suites of generation knows neither the burst nor the queue behind it, so that first tokens are
compared here only. How a row is read is in `sightline.validation.adapters`. Servers that process prompts
and decode on the same devices are a suite, and those with devices for each another one.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from sightline.catalog import entry
from sightline.simulation.load import Integers, Requests
from sightline.validation.adapters import launched, row_of_cells
from sightline.validation.cases import digest
from sightline.validation.serving import Log, MeasuredRun
from sightline.validation.tables import Cells, LeftOutError, Row, case_of, lines_of, scalar

TABLE = Path("aiconfigurator") / "silicon_sample.csv"
TOGETHER, APART = "aiconfigurator-aggregated", "aiconfigurator-disaggregated"
"""The suites of generation whose rows these are."""
ONE_IN = 8
"""Rows of which one is simulated, by their names, so that the suites do not take long."""
PROMPTS_PER_CLIENT = 10
SHORTEST = 0.8
"""Of the nominal length of prompts and answers, drawn evenly up to that length."""
SEED = 0
STEP = 64
"""Tokens in whole multiples of which scripts state a budget."""
MEASURED = ("ttft_s", "tpot_s")
LOAD = (
    (
        "As the benchmark's script sends them: as many clients as the concurrency, who all begin at once and send the"
        " next request after each answer, ten requests per client. Lengths are drawn with the script's own seed."
        " Prompts share nothing."
    ),
    "Figures are means over all requests, the burst included.",
    (
        "The fit part are rows to whose time per output token, as of a steady loop, the engines' constants are fitted;"
        " the test part are rows that no fit saw. Parts are those of the suites of generation."
    ),
)
DECISIONS = (
    (
        "Rows of InferenceX whose servers neither draft tokens nor have options that the simulator lacks: an interval"
        " between polls for requests (SGLang), prompts held back for a fuller pass (TensorRT-LLM). One in eight, by"
        " name."
    ),
    ("Other rows of the sample are left out: nothing says how many requests they had, nor whether prompts came again."),
    "Tokens of an iteration are those of the scripts that started the servers, else the engine's default.",
    *LOAD,
)
DECISIONS_ON_POOLS = (
    (
        "Disaggregated rows of InferenceX whose published deployment drafts no tokens; where it was published with"
        " drafts too and nothing tells which was run, the row is left out. One in eight, by name."
    ),
    (
        "As many sequences decode at a time as the published deployment allows; otherwise both pools have the engine's"
        " default limits. They keep no prefixes, since none comes again."
    ),
    *LOAD,
)


def aiconfigurator_runs(data: Path) -> Log:
    """Return the runs of a data folder."""
    return _log("serving-aiconfigurator", DECISIONS, "median 15 %", TOGETHER, list(_served_together(data / TABLE)))


def aiconfigurator_pools(data: Path) -> Log:
    """Return the runs of servers whose prompts are processed on devices of their own."""
    name = "serving-aiconfigurator-disaggregated"
    return _log(name, DECISIONS_ON_POOLS, "median 30 %", APART, list(_served_apart(data / TABLE)))


Line = tuple[Cells, Row]
"""Of the table, and the same under our keys."""


def _log(name: str, decisions: tuple[str, ...], goal: str, suite: str, lines: Sequence[Line]) -> Log:
    return Log(
        name=name,
        source="ai-dynamo/aiconfigurator@095f58a silicon sample, rows of SemiAnalysisAI/InferenceX, 2025-10 to 2026-04",
        decisions=decisions,
        figures=tuple(f"{name}.mean" for name in MEASURED),
        goals={"ttft_s.mean": goal},
        devices=[row["device"] for _, row in lines],
        read=lambda: [_run(cells, row, suite) for cells, row in lines],
    )


def _served_together(table: Path) -> Iterator[Line]:
    """Lines of servers whose devices do both."""
    rules = entry("published", TOGETHER)["csv"]["served"]
    for cells, row in _lines(table, TOGETHER):
        served = launched(cells, row, rules)
        if "option" in served or row.keys() & {"plan.speculative", "plan.disaggregate"}:
            continue
        yield cells, {**row, **_budget(cells, row, served)}


def _served_apart(table: Path) -> Iterator[Line]:
    """Lines of servers with devices for prompts and devices that decode."""
    for cells, row in _lines(table, APART):
        if not row.keys() & {"plan.speculative", "alternative"}:
            clients = int(row["workload.batch"])
            pools = {**row["plan.disaggregate"], "prefill": {**row["plan.disaggregate"]["prefill"], "batch": clients}}
            limits = {"plan.disaggregate": pools, "plan.prefix_cache": False}
            yield cells, {"plan.max_sequences": clients, **row, **limits}


def _lines(table: Path, suite: str) -> Iterator[Line]:
    """Lines of the table whose load is known, one in a few."""
    if not table.is_file():
        return
    published = entry("published", suite)
    for cells in lines_of(table):
        if cells["mode"] != published["only"]["mode"] or "gap-analysis" in cells["silicon_data_source"]:
            continue
        if digest([cells["id"]]) % ONE_IN == 0:
            yield cells, row_of_cells(cells, published["csv"])


def _budget(cells: Cells, row: Row, served: Mapping[str, Any]) -> dict[str, int]:
    """Return the limits of the server's scheduler; clients are all that run at once."""
    limits = {"plan.max_sequences": int(row["workload.batch"])}
    tokens = served.get("tokens")
    if tokens == "alone":
        beside = int(row["workload.batch"]) + int(scalar(cells["isl"])) + STEP
        tokens = max(STEP * ceil(beside / STEP), served.get("least", 0))
    return limits if tokens is None else limits | {"plan.max_batched_tokens": tokens}


def _run(cells: Cells, row: Row, suite: str) -> MeasuredRun:
    try:
        case = case_of(row, entry("published", suite))
    except LeftOutError as reason:
        raise ValueError(f"{cells['id']}: {reason}") from None
    clients = int(row["workload.batch"])
    count, random = PROMPTS_PER_CLIENT * clients, np.random.RandomState(SEED)
    prompts, answers = (_lengths(int(scalar(cells[name])), count, random) for name in ("isl", "osl"))
    lengths = {"prompt_tokens": round(float(prompts.mean())), "output_tokens": round(float(answers.mean()))}
    workload = {
        "task": "serve",
        "requests": {"count": count, **lengths},
        "arrival": {"process": "closed", "concurrency": clients},
    }
    return MeasuredRun(
        name=cells["id"],
        scenario={**case.scenario, "workload": workload},
        requests=Requests(arrival_s=np.zeros(count), prompt_tokens=prompts, output_tokens=answers),
        stated={f"{name}.mean": row[f"measured.{name}"] for name in MEASURED},
        counted=np.ones(count, np.bool_),
        split=case.split,
    )


def _lengths(nominal: int, count: int, random: np.random.RandomState) -> Integers:
    return random.randint(int(SHORTEST * nominal), nominal + 1, size=count).astype(np.int64)
