"""Runs of real vLLM servers that are sent more than they can answer: how many requests they answer per second."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from sightline.validation.serving.logs import RATE, Log, MeasuredRun, answered_per_s, measured_figure
from sightline.validation.serving.vllm_logs import DEVICES, FOLDER, rows_of_logs, run_of

CAPPED, OVERLOADED = "saturated (client-capped)", "overload"
CLIENTS = 256
"""Requests that the client of the residency runs has in flight at most."""
TIMES = ("ttft_s.mean", "tpot_s.mean", "latency_s.mean")
DECISIONS = (
    "Runs with a log per request whose queue grows without end, or would if the client had no limit.",
    (
        f"Where the client holds requests back, {CLIENTS} of them are always under way: clients in a closed loop, who"
        " all begin at once. Elsewhere requests are replayed at their arrivals."
    ),
    (
        "A client gives up after 300 s, which frees its place in the server. The simulation knows no clients that give"
        " up, so that both count the requests that were answered before the first one did."
    ),
    (
        "Limits of the scheduler and the blocks of the KV cache are the stated ones. The processor's memory as a second"
        " tier of the cache, which the two runs of 0.15.1 have, is left out."
    ),
    (
        "Servers count as the release they are of: two runs are of a fork of 0.15.1 with tracing on, two of 0.23.0 with"
        " a patch that by its authors costs about 1 % end to end."
    ),
    "No constant is fitted to these runs. That vLLM hides the host's time was chosen with them in view.",
)


def vllm_saturated(data: Path) -> Log:
    """Return the runs of a data folder."""
    rows = rows_of_logs(data / FOLDER, CAPPED, OVERLOADED)
    return Log(
        name="serving-vllm-saturated",
        source="inference-sim/training and inference-sim/residency-vllm, logs of vLLM 0.15.1 and 0.23.0 (2026)",
        decisions=DECISIONS,
        figures=(RATE,),
        goals={RATE: "10 %"},
        devices=[DEVICES[row["hardware"]] for row in rows],
        read=lambda: [_run(row, data / FOLDER) for row in rows],
    )


def _run(row: Mapping[str, str], folder: Path) -> MeasuredRun:
    run = run_of(row, folder)
    return _closed(run) if row["regime"] == CAPPED else run


def _closed(run: MeasuredRun) -> MeasuredRun:
    """The run of clients who send a request whenever they have an answer."""
    load = {**run.scenario["workload"], "arrival": {"process": "closed", "concurrency": CLIENTS}}
    return replace(
        run,
        scenario={**run.scenario, "workload": load},
        requests=replace(run.requests, arrival_s=np.zeros(len(run.requests))),
        stated={RATE: answered_per_s(run.last_token_s)} | {name: measured_figure(name, run) for name in TIMES},
    )
