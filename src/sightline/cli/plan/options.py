"""The options of ``sightline plan``."""

import shlex
from dataclasses import dataclass, field
from typing import Annotated

import typer

from sightline.cli.options import Anchors, RunStore, Settings, Workers, first_of, option
from sightline.cli.reports import ReportOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What is looked for, where, and in which form it is answered."""

    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A scenario file (YAML or JSON). Fields it leaves out are searched. Use - to read from stdin.",
        ),
    ] = ""
    objective: str | None = option(
        None,
        "Objective. Training: time (default), cost, energy, memory, batch. Generation: throughput (default), "
        "latency, interactivity, cost, energy, memory, users. Serving: goodput (default), cost, users, energy.",
        metavar="NAME",
    )
    pareto: str | None = option(
        None, "Find the Pareto-optimal plans for two objectives, such as time,cost.", metavar="X,Y"
    )
    top: str | None = option(
        None, "Show the best N plans, at most 1000. Default: 10; 5 for serving; 15 with --pareto.", metavar="N"
    )
    devices: str | None = option(
        None,
        "Devices to search instead of the scenario's: '64x NAME', '8..1024x NAME' (doubling), or a device name, "
        "which keeps the device count.",
        metavar="NAME,...",
    )
    max_memory: str | None = option(None, "Memory limit per device, such as '70 GB'.", metavar="SIZE")
    deadline: str | None = option(None, "Longest run time, such as 30d.", metavar="TIME")
    budget: str | None = option(None, "Highest cost of the run in USD, such as 1M.", metavar="USD")
    ttft: str | None = option(None, "Limit for time to first token, such as '300 ms'.", metavar="TIME")
    tpot: str | None = option(None, "Limit for time per output token, such as '10 ms'.", metavar="TIME")
    think_time: str | None = option(
        None, "Time a user takes between an answer and the next request, such as '30 s'.", metavar="TIME"
    )
    price: Annotated[
        list[str] | None,
        typer.Option(
            "--price",
            metavar="NAME=USD_PER_HOUR",
            help="Override the catalog price of a device. Can be repeated.",
            show_default=False,
        ),
    ] = None
    availability: str | None = option(
        None,
        "Share of wall-clock time in which the run makes progress. Default: from the size of the cluster.",
        metavar="SHARE",
    )
    launchable: bool = option(False, "Search only plans that the framework supports and can launch.")
    launch: str | None = option(
        None, "Write the launch command and files of the best launchable plan to this folder.", metavar="DIR"
    )
    workers: Workers = None
    where: str | None = option(
        None,
        "Save partial results as Parquet files, so that a stopped search can resume.",
        metavar="DIR|URL",
    )
    anchor: Anchors = None
    settings: Settings = None
    reports: ReportOptions = field(default_factory=ReportOptions)
    store: RunStore = None

    @property
    def first(self) -> int | None:
        """How many plans are asked for; None for the usual number."""
        from sightline.planning.search import MOST_TOP

        return first_of(self.top, MOST_TOP)

    def as_asked(self, command: str) -> str:
        """Return a command for the same scenario."""
        words = ["sightline", command, self.file]
        for name, given in (("--anchor", self.anchor), ("--set", self.settings)):
            words += [word for value in given or () for word in (name, value)]
        return shlex.join(words)

    def again(self, *more: str) -> str:
        """Return the command as it was typed, without what writes its answer, and with ``more``."""
        values = {
            "--objective": self.objective,
            "--pareto": self.pareto,
            "--devices": self.devices,
            "--max-memory": self.max_memory,
            "--deadline": self.deadline,
            "--budget": self.budget,
            "--ttft": self.ttft,
            "--tpot": self.tpot,
            "--think-time": self.think_time,
            "--availability": self.availability,
            "--workers": self.workers,
            "--where": self.where,
        }
        words = [word for name, value in values.items() if value is not None for word in (name, value)]
        words += [word for value in self.price or () for word in ("--price", value)]
        words += ["--launchable"] if self.launchable and "--launchable" not in more else []
        return " ".join([self.as_asked("plan"), *map(shlex.quote, (*words, *more))])
