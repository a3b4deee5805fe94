"""The options of ``sightline measure``. Those that what is measured has no use for are refused, not left unread."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

import typer

from sightline.cli.options import AsCsv, AsJson, Html, RunStore, Settings, Sweeps
from sightline.errors import InputError

TRAINING, GENERATION, OPERATOR = "training", "generation", "single operators"
FILES = (TRAINING, GENERATION, OPERATOR)
STANDARD_SUITE, STUDY = "standard", "2311.03687"
SUITES = (STANDARD_SUITE, STUDY)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """What is measured and how; None leaves it to the task."""

    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE...]", help="Scenario files (YAML, JSON or CSV); - reads stdin.", show_default=False
        ),
    ] = None
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Measure a suite: standard, the operators `calibrate` takes; 2311.03687, that study's grid.",
        ),
    ] = None
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repeats, and half of a suite.")] = False
    rerun: Annotated[
        bool, typer.Option("--rerun", help="Measure again what an earlier run of the suite has measured.")
    ] = False
    implementation: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="PyTorch's implementation: flash, math, eager, ... (attention), fused, foreach, loop (adam), "
            "host-to-device, ... (copy), dynamic, static, compiled, eager (generation).",
        ),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Run the checkpoint in this folder; default: random weights."),
    ] = None
    level: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,C", help="Levels of training: end-to-end, module, operator; default: end-to-end,module."
        ),
    ] = None
    steps: Annotated[int | None, typer.Option(help="Training steps timed in each run; default: 100.")] = None
    warmup: Annotated[int | None, typer.Option(help="Warm-up steps before them; default: 30.")] = None
    repeats: Annotated[
        int | None, typer.Option(help="Independent training runs, each in new processes; default: 3.")
    ] = None
    time_limit: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Time limit for training a scenario; default: 3600.")
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Run also plans that are predicted not to fit.")] = False
    nnodes: Annotated[int | None, typer.Option(help="Number of nodes; or start with torchrun.")] = None
    node_rank: Annotated[int | None, typer.Option(help="Rank of this node, from 0.")] = None
    rendezvous: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address of node 0 for the other nodes.")
    ] = None
    dtype: Annotated[str, typer.Option(metavar="NAME", help="The suite's dtype: fp32, bf16 or fp16.")] = "fp32"
    cluster: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The suite's cluster, such as '8x h100-sxm-80gb'; default: this-machine."),
    ] = None
    as_json: AsJson = False
    as_csv: AsCsv = False
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the results as .json, which `calibrate --from` reads.")
    ] = None
    html: Html = None
    store: RunStore = None
    settings: Settings = None
    sweeps: Sweeps = None

    def given(self, name: str) -> bool:
        """Whether the user gave the option of this field."""
        value = getattr(self, name)
        return value not in (None, [], "fp32") and value is not False


STANDARD_NAME, STUDY_NAME = (f"--suite {name}" for name in SUITES)
USED_BY: Mapping[str, Collection[str]] = {
    "implementation": (GENERATION, OPERATOR),
    "weights": (TRAINING, GENERATION),
    **dict.fromkeys(("level", "steps", "warmup", "repeats", "time_limit"), (TRAINING,)),
    "force": (TRAINING, GENERATION),
    **dict.fromkeys(("nnodes", "node_rank", "rendezvous"), (TRAINING,)),
    **dict.fromkeys(("settings", "sweeps"), FILES),
    **dict.fromkeys(("dtype", "cluster"), (STANDARD_NAME,)),
    **dict.fromkeys(("as_csv", "out"), (*FILES, STANDARD_NAME)),
    "rerun": (STANDARD_NAME, STUDY_NAME),
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
