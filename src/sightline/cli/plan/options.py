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
            help="A scenario file (YAML or JSON); fields that it leaves out are searched; - reads stdin.",
        ),
    ] = ""
    objective: str | None = option(
        None,
        "What is best: time (default), cost, energy, memory or batch in training; throughput (default), latency, "
        "interactivity, cost, energy, memory or users in generation; goodput (default), cost, users or energy where "
        "a load is served.",
        metavar="NAME",
    )
    pareto: str | None = option(
        None, "Two objectives instead, such as time,cost: the Pareto-optimal plans.", metavar="X,Y"
    )
    top: str | None = option(
        None, "Show the best N plans, at most 1000; default: 10, 5 of a load, 15 of a Pareto front.", metavar="N"
    )
    devices: str | None = option(
        None,
        "Devices to search instead of the scenario's: '64x NAME', '8..1024x NAME' (doubling), or a name for as many.",
        metavar="NAME,...",
    )
    max_memory: str | None = option(None, "Memory of a device that a plan may take, such as '70 GB'.", metavar="SIZE")
    deadline: str | None = option(None, "Time on the calendar that the run may take, such as 30d.", metavar="TIME")
    budget: str | None = option(None, "Dollars that the run may cost, such as 1M.", metavar="USD")
    ttft: str | None = option(None, "Time to the first token that users may wait, such as '300 ms'.", metavar="TIME")
    tpot: str | None = option(None, "Time per further token at most, such as '10 ms'.", metavar="TIME")
    think_time: str | None = option(
        None, "Time that a user of a load takes between an answer and the next request, such as '30 s'.", metavar="TIME"
    )
    price: Annotated[
        list[str] | None,
        typer.Option(
            "--price",
            metavar="NAME=USD_PER_HOUR",
            help="Price of a device in place of the catalog's; repeatable.",
            show_default=False,
        ),
    ] = None
    availability: str | None = option(
        None, "Share of the calendar time in which the run makes progress; default: by its size.", metavar="SHARE"
    )
    launchable: bool = option(False, "Leave out what the framework does not offer today, or its launch cannot run.")
    launch: str | None = option(
        None, "Write the command and the files that run the best plan that can be launched.", metavar="DIR"
    )
    workers: Workers = None
    where: str | None = option(
        None,
        "Keep what is found part by part in Parquet files; a search that was stopped goes on from there.",
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
