"""The options of ``sightline measure``. Those that what is measured has no use for are refused, not left unread."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from sightline.cli.options import RunStore, Settings, Sweeps, only, option
from sightline.cli.reports import ReportOptions
from sightline.errors import InputError

TRAINING, GENERATION, SERVING, OPERATOR = "training", "generation", "serving", "single operators"
FILES = (TRAINING, GENERATION, SERVING, OPERATOR)
STANDARD_SUITE, PAPER_SUITE = "standard", "2311.03687"
SUITES = (STANDARD_SUITE, PAPER_SUITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureReports(ReportOptions):
    """The forms in which what was measured is asked for."""

    out: str | None = option(None, "Write the results as .json, which `calibrate --from` reads.", metavar="FILE")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """What is measured and how; None leaves it to the task."""

    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE...]", help="Scenario files (YAML, JSON or CSV); - reads stdin.", show_default=False
        ),
    ] = None
    suite: str | None = option(
        None,
        "Measure a suite: standard, the operators `calibrate` takes; 2311.03687, that study's grid.",
        metavar="NAME",
    )
    quick: bool = option(False, "Fewer repeats, and half of a suite.")
    rerun: bool = option(False, "Measure again what an earlier run of the suite has measured.")
    implementation: str | None = option(
        None,
        "PyTorch's implementation: flash, math, eager, ... (attention), fused, foreach, loop (adam), "
        "host-to-device, ... (copy), dynamic, static, compiled, eager (generation).",
        metavar="NAME",
    )
    weights: str | None = option(None, "Run the checkpoint in this folder; default: random weights.", metavar="DIR")
    level: str | None = option(
        None, "Levels of training: end-to-end, module, operator; default: end-to-end,module.", metavar="A,B,C"
    )
    steps: int | None = option(None, "Training steps timed in each run; default: 100.")
    warmup: int | None = option(None, "Warm-up steps before them; default: 30. Of serving: requests; default: 4.")
    repeats: int | None = option(None, "Independent training runs, each in new processes; default: 3.")
    time_limit: float | None = option(
        None, "Time limit for training or serving a scenario; default: 3600.", metavar="SECONDS"
    )
    force: bool = option(False, "Run also plans that are predicted not to fit.")
    url: str | None = option(
        None, "Send the load to the OpenAI-compatible server at this URL; default: the plan's engine is started."
    )
    api_key_env: str | None = option(
        None, "Environment variable with the server's key, which is stored nowhere.", metavar="VAR"
    )
    served_model: str | None = option(
        None, "The model's name on the server; default: the only one that it lists.", metavar="NAME"
    )
    chat: bool = option(False, "Send chats instead of completions.")
    engine_command: str | None = option(
        None, "Start the engine by this command; {model} and {port} stand for folder and port.", metavar="COMMAND"
    )
    stall: float | None = option(
        None,
        "Give a request up when nothing comes for so long; default: 120, of an answer that has begun.",
        metavar="SECONDS",
    )
    nnodes: int | None = option(None, "Number of nodes; or start with torchrun.")
    node_rank: int | None = option(None, "Rank of this node, from 0.")
    rendezvous: str | None = option(None, "Address of node 0 for the other nodes.", metavar="HOST:PORT")
    dtype: str = option("fp32", "The suite's dtype: fp32, bf16 or fp16.", metavar="NAME")
    cluster: str | None = option(
        None, "The suite's cluster, such as '8x h100-sxm-80gb'; default: this-machine.", metavar="NAME"
    )
    reports: Annotated[MeasureReports, only("as_json", "as_csv", "out", "charts", "html", "markdown")] = (
        MeasureReports()
    )
    store: RunStore = None
    settings: Settings = None
    sweeps: Sweeps = None

    def given(self, name: str) -> bool:
        """Whether the user gave the option of this field."""
        value = getattr(self if hasattr(self, name) else self.reports, name)
        return value not in (None, [], "fp32") and value is not False


STANDARD_NAME, PAPER_NAME = (f"--suite {name}" for name in SUITES)
USED_BY: Mapping[str, Collection[str]] = {
    "implementation": (GENERATION, OPERATOR),
    "weights": (TRAINING, GENERATION, SERVING),
    **dict.fromkeys(("level", "steps", "repeats"), (TRAINING,)),
    **dict.fromkeys(("warmup", "time_limit"), (TRAINING, SERVING)),
    **dict.fromkeys(("url", "api_key_env", "served_model", "chat", "engine_command", "stall"), (SERVING,)),
    "force": (TRAINING, GENERATION),
    **dict.fromkeys(("nnodes", "node_rank", "rendezvous"), (TRAINING,)),
    **dict.fromkeys(("settings", "sweeps"), FILES),
    **dict.fromkeys(("dtype", "cluster"), (STANDARD_NAME,)),
    **dict.fromkeys(("as_csv", "out"), (*FILES, STANDARD_NAME)),
    "rerun": (STANDARD_NAME, PAPER_NAME),
}
"""What each option is for, by its field, as far as it is not for everything."""
OPTION_NAMES = {"settings": "--set", "sweeps": "--sweep", "as_csv": "--csv"}


def refuse_idle(options: MeasureOptions, measured: Iterable[str]) -> None:
    """Raise `InputError` for every option that is given and that nothing of what is measured has a use for."""
    what = list(dict.fromkeys(measured))
    idle = [field for field, users in USED_BY.items() if options.given(field) and not set(users) & set(what)]
    if idle:
        raise InputError(
            [
                f"{OPTION_NAMES.get(field, '--' + field.replace('_', '-'))} is for {', '.join(USED_BY[field])}; "
                f"measured here: {', '.join(what)}"
                for field in idle
            ]
        )
