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

    out: str | None = option(None, "Write the results to a .json file for `calibrate --from`.", metavar="FILE")


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """What is measured and how; None leaves it to the task."""

    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE...]",
            help="Scenario files (YAML, JSON or CSV). Use - to read from stdin.",
            show_default=False,
        ),
    ] = None
    suite: str | None = option(
        None,
        "Measure a suite: `standard` (operators for `calibrate`) or `2311.03687` (the grid of that paper).",
        metavar="NAME",
    )
    quick: bool = option(False, "Use fewer repeats and half of the suite.")
    rerun: bool = option(False, "Ignore stored results of the suite and measure again.")
    implementation: str | None = option(
        None,
        "PyTorch implementation: flash, math, eager, ... (attention); fused, foreach, loop (adam); "
        "host-to-device, ... (copy); dynamic, static, compiled, eager (generation).",
        metavar="NAME",
    )
    weights: str | None = option(None, "Load the checkpoint in this folder. Default: random weights.", metavar="DIR")
    level: str | None = option(
        None,
        "Levels to measure in training: end-to-end, module, operator. Default: end-to-end,module.",
        metavar="A,B,C",
    )
    steps: int | None = option(None, "Timed training steps per run. Default: 100.", metavar="N")
    warmup: int | None = option(
        None, "Warm-up steps before timing (default: 30), or warm-up requests when serving (default: 4).", metavar="N"
    )
    repeats: int | None = option(None, "Independent training runs, each in a new process. Default: 3.", metavar="N")
    time_limit: float | None = option(
        None, "Time limit per training or serving scenario. Default: 3600.", metavar="SECONDS"
    )
    force: bool = option(False, "Run plans that are predicted not to fit in memory.")
    url: str | None = option(
        None, "Send requests to this OpenAI-compatible server. Default: start the plan's engine.", metavar="URL"
    )
    api_key_env: str | None = option(
        None, "Environment variable that holds the server's API key. The key is never stored.", metavar="VAR"
    )
    served_model: str | None = option(None, "Model name on the server. Default: the only model listed.", metavar="NAME")
    chat: bool = option(False, "Use the chat endpoint instead of completions.")
    engine_command: str | None = option(
        None, "Command that starts the engine; {model} is the model folder and {port} the port.", metavar="COMMAND"
    )
    stall: float | None = option(
        None,
        "Abandon a request after this time without output. Default: 120, once output has begun.",
        metavar="SECONDS",
    )
    nnodes: int | None = option(None, "Number of nodes. Not needed with torchrun.", metavar="N")
    node_rank: int | None = option(None, "Rank of this node, starting at 0.", metavar="N")
    rendezvous: str | None = option(None, "Address of node 0.", metavar="HOST:PORT")
    dtype: str = option("fp32", "Data type of the suite: fp32, bf16 or fp16.", metavar="NAME")
    cluster: str | None = option(
        None, "Cluster of the suite, such as '8x h100-sxm-80gb'. Default: this-machine.", metavar="NAME"
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
                f"{OPTION_NAMES.get(field, '--' + field.replace('_', '-'))} applies to "
                f"{', '.join(USED_BY[field])}, not to {', '.join(what)}"
                for field in idle
            ]
        )
