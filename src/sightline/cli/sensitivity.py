"""``sightline sensitivity``: which numbers a prediction depends on."""

from typing import Annotated

import typer

from sightline.cli import output
from sightline.cli.options import AsJson, Settings, Sweeps


def sensitivity(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Scenario files (YAML, JSON or CSV); - reads stdin.", show_default=False
        ),
    ],
    as_json: AsJson = False,
    settings: Settings = None,
    sweeps: Sweeps = None,
) -> None:
    """Show which numbers a prediction depends on: elasticities to device, links and network, and neighbouring plans.

    An elasticity of -0.4 means that 1 % more of the number reduces the time by 0.4 %. For training, every plan that
    differs in one choice is predicted too.

    \b
    Examples:
      sightline sensitivity examples/llama-2-7b-zero2-8xa800.yaml
      sightline sensitivity examples/llama-2-70b-generate-4xh100.yaml --sweep workload.batch=1,64
      sightline sensitivity examples/gpt-3-175b-1024xa100.yaml --json
    """
    from sightline.loading import load_all
    from sightline.prediction.sensitivity import sensitivity as of
    from sightline.report.terminal.sensitivity import sensitivity_to_dict, terminal

    found = [of(scenario) for scenario in load_all(files, settings or [], sweeps or [])]
    for warning in dict.fromkeys(w for f in found for w in f.answer.scenario.warnings):
        output.print_remark(f"warning: {warning}")
    if as_json:
        documents = [sensitivity_to_dict(f) for f in found]
        output.print_json(documents[0] if len(documents) == 1 else documents)
        return
    for position, one in enumerate(found):
        output.print_text("\n" if position else "")
        output.print_table(terminal(one))
