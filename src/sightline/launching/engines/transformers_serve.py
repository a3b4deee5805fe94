"""Hugging Face transformers: ``transformers serve`` of release 5 with continuous batching, on one device."""

from collections.abc import Iterator, Mapping
from typing import Any

from sightline.launching.engines import dialect
from sightline.launching.engines.dialect import Dialect
from sightline.launching.engines.requests import (
    DTYPES,
    READ_DTYPES,
    block_tokens,
    model_argument,
    quantization,
    requested_formats,
    unwritten_notes,
)
from sightline.launching.engines.servers import LOCAL, Arguments, Command, Server, launch, one_node_problems
from sightline.launching.launch import Launch, refuse
from sightline.launching.options import Options, without_none
from sightline.loading.clusters.this_machine import THIS_MACHINE
from sightline.scenario import GenerationScenario
from sightline.scenario.generation import DEGREES

PORT = 8000
WEIGHTS: Mapping[str, str] = {"nf4": "bnb-4bit", "w8a16": "bnb-8bit", "int8": "bnb-8bit"}
"""Formats that it converts weights to while it loads them."""
READ_WEIGHTS: Mapping[str, str] = {"bnb-4bit": "nf4", "bnb-8bit": "w8a16"}


def write(scenario: GenerationScenario) -> Launch:
    """Return the command of a server, or the script of several.

    Raises:
        InputError: The plan has degrees or pools that the server does not have.
    """
    refuse([*one_node_problems(scenario, *DEGREES)])
    model, unknown = model_argument(scenario)
    command = Command(words=("transformers", "serve", model), arguments=_arguments(scenario), of_node=_of_node)
    notes = [*unknown, *requested_formats(scenario, WEIGHTS).notes, *_notes(scenario)]
    return launch(scenario, {"": command}, port=PORT, notes=notes)


def _arguments(scenario: GenerationScenario) -> Arguments:
    """The options that every server has."""
    plan, formats = scenario.plan, requested_formats(scenario, WEIGHTS)
    stated = {
        "--continuous-batching": True,
        "--device": "cpu" if scenario.cluster.device.name == THIS_MACHINE else "cuda",
        "--dtype": DTYPES.get(plan.dtype),
        "--quantization": formats.weights or None,
        "--cb-block-size": block_tokens(plan),
        "--cb-max-batch-tokens": plan.max_batched_tokens,
        "--cb-max-memory-percent": plan.memory_fraction,
        "--cb-use-cuda-graph" if plan.cuda_graphs else "--no-cb-use-cuda-graph": True,
    }
    return without_none(stated)


def _of_node(_server: Server, _rank: int, address: str) -> Arguments:
    """What lets other nodes reach a server."""
    return {} if address == LOCAL else {"--host": "0.0.0.0"}  # noqa: S104


def _notes(scenario: GenerationScenario) -> Iterator[str]:
    if scenario.plan.speculative is not None:
        yield "plan.speculative: transformers serve drafts nothing"
    if cache := requested_formats(scenario, WEIGHTS).cache:
        yield f"plan.quantization {cache}: transformers serve keeps its cache in 16 bits"
    if not scenario.plan.prefix_cache:
        yield "plan.prefix_cache False: transformers serve always shares the blocks of equal prefixes"
    yield from unwritten_notes(scenario, "chunked_prefill")


def _plan(options: Options, model: str) -> Mapping[str, Any]:
    """The keys of ``plan`` that a server's options say."""
    formats = quantization(options.word("quantization", READ_WEIGHTS), "", model)
    plan = {
        "dtype": options.word("dtype", READ_DTYPES) or None,
        "quantization": formats or None,
        "max_batched_tokens": options.number("cb-max-batch-tokens"),
        "memory_fraction": options.share("cb-max-memory-percent"),
        "kv_block_tokens": options.number("cb-block-size"),
        "cuda_graphs": options.flag("cb-use-cuda-graph"),
        "prefix_cache": True,
    }
    return without_none(plan)


DIALECT = Dialect(
    engine="transformers",
    programs=(("transformers", "serve"),),
    image="",
    plan=_plan,
    models=("force-model",),
    positional=True,
    flags={"continuous-batching", "compile", "trust-remote-code", "enable-cors", "non-blocking", "cb-use-cuda-graph"},
    quiet={"continuous-batching", "device", "model-timeout", "enable-cors", "default-seed", "attn-implementation"},
)

claims, read = dialect.of(DIALECT)
"""Whether what was given starts the server, and the scenario that its servers make up."""
