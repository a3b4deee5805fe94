"""``sightline import``: a framework's own configuration or command line read back as a scenario."""

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from sightline.cli import output
from sightline.cli.options import AsJson, Settings, argument, described
from sightline.cli.output import try_next
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.launching import Reading


def import_(
    source: Annotated[
        list[str],
        argument("A configuration file, script or command line. Use - to read from stdin.", "FILE|COMMAND"),
    ],
    model: Annotated[str | None, described("The model, if the source does not name it.", metavar="NAME|PATH")] = None,
    cluster: Annotated[str | None, described("The devices, such as '8x h100-sxm-80gb'.", metavar="CLUSTER")] = None,
    rate: Annotated[
        float | None, described("Requests per second to serve, for simulate, instead of one batch.", metavar="RATE")
    ] = None,
    settings: Settings = None,
    out: Annotated[
        str | None, described("Write the scenario to this .yaml file instead of stdout.", metavar="OUT")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Convert a framework's configuration or command line to a scenario.

    Supported inputs: YAML and commands of LLaMA-Factory, axolotl, ms-swift, torchtune, MaxText, NeMo and
    Megatron-Bridge, DeepSpeed JSON, Megatron-LM commands and scripts, accelerate YAML, torchtitan TOML, transformers
    Trainer arguments, and commands, containers and scripts of vLLM, SGLang, TensorRT-LLM, TGI, LightLLM, llama.cpp and
    transformers serve. The scenario is printed to stdout; unsupported options, assumptions and missing keys go to
    stderr. Pass a command as one quoted string, or word by word after --.

    \b
    Examples:
      sightline import ds_config.json --model llama-2-7b --cluster "8x a100-sxm-80gb"
      sightline import pretrain.sh --cluster "64x h100-sxm-80gb" --out scenario.yaml
      sightline import "vllm serve Qwen/Qwen3-32B -tp 4" --cluster "4x h100-sxm-80gb" --set workload.batch=64
      sightline import --cluster "2x h100-sxm-80gb" -- vllm serve meta-llama/Llama-3.1-8B-Instruct -tp 2
      cat serve.sh | sightline import - --cluster "8x h200-sxm-141gb" | sightline predict -
    """
    from sightline.launching import at_rate, completed, scenario_text

    output.check({"--out": out}, out=(".yaml", ".yml"))
    reading = _read(source) if rate is None else at_rate(_read(source), rate)
    reading = completed(reading, _known(model, cluster, settings or []))
    if "model" in reading.missing and reading.scenario.get("model"):
        raise InputError(f"{reading.missing['model']}; or use --model")
    if as_json:
        keys = ("framework", "read_as", "scenario", "missing", "assumed", "without_counterpart")
        output.print_json({key: getattr(reading, key) for key in keys})
        return
    for sentence in _remarks(reading):
        output.print_remark(sentence)
    if out is None:
        output.print_text(scenario_text(reading))
        return
    output.write_file(out, scenario_text(reading))
    if not reading.missing:
        try_next("predict" if rate is None else "simulate", out)


def _read(source: list[str]) -> "Reading":
    """What a file, standard input, one text or the words of a command say."""
    from sightline.launching import read
    from sightline.loading.sources import read_stdin

    if source == ["-"]:
        return read(f"{read_stdin()}\n")
    if not "".join(source).strip():
        raise InputError("the command is empty")
    return read(source[0] if len(source) == 1 else shlex.join(source))


def _known(model: str | None, cluster: str | None, settings: list[str]) -> dict[str, Any]:
    """Values by dotted key, of the options of their own first."""
    from sightline.loading.checks import key_value
    from sightline.loading.sources import value_of

    stated = {"model": model, "cluster": cluster}
    pairs = [key_value(argument) for argument in settings]
    known = {key: value for key, value in stated.items() if value is not None}
    return {**known, **{key: value_of(key, value) for key, value in pairs}}


def _remarks(reading: "Reading") -> Iterator[str]:
    """What was read, what no key stands for, what was assumed, and what is missing with the option that gives it."""
    yield reading.read_as
    yield from reading.without_counterpart
    if reading.assumed:
        listed = ", ".join(f"{key} {value}" for key, value in reading.assumed.items())
        yield f"assumed: {listed}; override with --set"
    for key, what in reading.missing.items():
        option = f"--{key}" if key in ("model", "cluster") else f"--set {key}=..."
        yield f"{key} is missing: {what}; use {option}"
