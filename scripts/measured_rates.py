"""Measure a real engine at several rates, simulate each, anchored on one of them, and print and draw both.

    python scripts/measured_rates.py examples/tiny-llama-serve-this-machine.yaml --chart curve.svg
    python scripts/measured_rates.py examples/tiny-llama-serve-this-machine.yaml --rates 4,8,16 --anchor-at 8

Without `--rates` a closed loop finds out what the engine answers when it always has enough to do, and rates are shares
of that.
Every rate is `sightline measure`, which starts the engine anew, and `sightline simulate --anchor --replay`, which
simulates the same requests at the same times after what the run at `--anchor-at` taught. Runs are kept in the store:
`--runs` simulates measured ones again.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rates_chart import RateMeasured, measured_rates_chart
from rich.console import Console
from rich.table import Table

from sightline.answers import units
from sightline.charts import rendering
from sightline.profile.metrics import metric_of
from sightline.runs import open_store

RATE, COUNT = "workload.arrival.rate", "workload.requests.count"
LEAST_REQUESTS = 40
USERS = 32
SHARES = (0.2, 0.4, 0.6, 0.8, 0.9)


def main() -> None:
    """Measure, simulate, print and draw."""
    asked = _arguments()
    rates = [float(rate) for rate in asked.rates.split(",")] if asked.rates else _shares_of_saturation(asked)
    anchor_at = rates[(len(rates) - 1) // 2] if asked.anchor_at is None else asked.anchor_at
    if anchor_at not in rates:
        sys.exit(f"--anchor-at {anchor_at:g} is none of {', '.join(map(str, rates))}")
    settings = {rate: _settings(rate, asked) for rate in rates}
    stored = asked.runs.split(",") if asked.runs else []
    runs = dict(zip(rates, stored, strict=True)) if stored else _measured(asked.scenario, settings)
    found = {rate: _simulated(asked.scenario, settings[rate], runs[anchor_at], runs[rate]) for rate in rates}
    beside = {rate: _beside(found[rate], runs[rate], anchors=rate == anchor_at) for rate in rates}
    _print(beside)
    if asked.chart is not None:
        drawn = measured_rates_chart(list(beside.values()), asked.title or str(found[anchor_at]["scenario"]["name"]))
        text = rendering.draw(drawn, str(asked.chart))
        asked.chart.write_bytes(text if isinstance(text, bytes) else text.encode())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", help="a scenario of task serve, whose engine runs here")
    parser.add_argument("--rates", help="arrivals per second, such as 4,8,16; default: shares of what saturates it")
    parser.add_argument("--anchor-at", type=float, help="the rate that anchors the others; default: the middle one")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long requests arrive at each rate")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as of sightline measure")
    parser.add_argument("--runs", help="stored runs of these rates, which are then not measured again")
    parser.add_argument("--chart", type=Path, help="draw the curves into this .svg or .png")
    parser.add_argument("--title", help="of the chart; default: the scenario's name")
    return parser.parse_args()


def _shares_of_saturation(asked: argparse.Namespace) -> list[float]:
    """Rates up to near saturation, to two digits."""
    closed = [*asked.set, f"workload.arrival={{process: closed, concurrency: {USERS}}}", f"{COUNT}={10 * USERS}"]
    saturated = _sightline("measure", asked.scenario, *_options(closed))["requests_per_s"]
    print(f"{USERS} users who never pause get {saturated:.3g} answers per second", flush=True)
    return [float(f"{share * saturated:.2g}") for share in SHARES]


def _settings(rate: float, asked: argparse.Namespace) -> list[str]:
    count = max(round(rate * asked.seconds), LEAST_REQUESTS)
    return _options([*asked.set, f"{RATE}={rate:g}", f"{COUNT}={count}"])


def _options(pairs: Sequence[str]) -> list[str]:
    return [word for pair in pairs for word in ("--set", pair)]


def _measured(scenario: str, settings: Mapping[float, Sequence[str]]) -> dict[float, str]:
    """Measure each rate; return the runs' ids."""
    runs = {}
    for rate, words in settings.items():
        measured = _sightline("measure", scenario, *words)
        runs[rate] = str(measured["run"])
        print(f"{rate:g} requests/s: {measured['completed']} completed, run {measured['run']}", flush=True)
    return runs


def _simulated(scenario: str, settings: Sequence[str], anchor: str, run: str) -> dict[str, Any]:
    return _sightline("simulate", scenario, *settings, "--anchor", anchor, "--replay", run)


def _sightline(*words: str) -> dict[str, Any]:
    """The answer of a command; what it has to say goes to the terminal."""
    command = [sys.executable, "-m", "sightline", *words, "--json"]
    answer: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return answer


def _beside(answer: Mapping[str, Any], run: str, *, anchors: bool) -> RateMeasured:
    """The means of one rate."""
    means = {row["time"]: row for row in answer["replay"] if row["statistic"] == "mean"}
    measured, simulated = ({key: row[of] for key, row in means.items()} for of in ("measured", "simulated"))
    answered = open_store().find(run).result["requests_per_s"]
    return RateMeasured(
        measured={"requests_per_s": answered} | measured,
        simulated={"requests_per_s": answer["requests_per_s"]} | simulated,
        interval={key: tuple(answer["interval"][f"{key}.mean"]) for key in means},
        anchors=anchors,
    )


_TIMES = ("ttft_s", "tpot_s", "latency_s")


def _print(beside: Mapping[float, RateMeasured]) -> None:
    """Print a line for each rate and time."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("rate", "mean", "measured", "simulated", "error"):
        table.add_column(heading, justify="left" if heading == "mean" else "right")
    for rate, one in beside.items():
        for number, key in enumerate(_TIMES):
            said = f"{rate:g}/s{' (anchor)' if one.anchors else ''}" if number == 0 else ""
            times = [units.seconds(figures[key]) for figures in (one.measured, one.simulated)]
            table.add_row(said, metric_of(key).spoken, *times, f"{100 * one.error(key):+.1f} %")
    Console().print(table)


if __name__ == "__main__":
    main()
