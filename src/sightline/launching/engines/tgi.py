"""Text Generation Inference: ``text-generation-launcher`` of release 3.3, one server on the devices of a node."""

from collections.abc import Iterator, Mapping
from typing import Any

from sightline.launching.engines import dialect
from sightline.launching.engines.dialect import Dialect
from sightline.launching.engines.requests import (
    DTYPES,
    READ_DTYPES,
    budget,
    budget_notes,
    longest,
    model_argument,
    quantization,
    requested_formats,
    sequences,
    unwritten_notes,
)
from sightline.launching.engines.servers import Arguments, Command, Server, launch, one_node_problems
from sightline.launching.launch import Launch, refuse
from sightline.launching.options import Options, without_none
from sightline.scenario import GenerationScenario

PORT, RANKS_PORT = 3000, 29500
"""First ports of the servers, and of the exchange among a server's ranks."""
WEIGHTS: Mapping[str, str] = {"fp8": "fp8", "w8a16": "eetq", "int8": "eetq", "nf4": "bitsandbytes-nf4"}
"""Formats that the engine converts 16-bit weights to while it loads them."""
READ_WEIGHTS: Mapping[str, str] = {
    "fp8": "fp8",
    "eetq": "w8a16",
    "bitsandbytes": "w8a16",
    "bitsandbytes-nf4": "nf4",
    "bitsandbytes-fp4": "nf4",
    **dict.fromkeys(("awq", "gptq", "marlin", "exl2"), "w4a16"),
    "compressed-tensors": "",
}
"""Our word by the engine's; empty where the checkpoint says the format."""
CACHES: Mapping[str, str] = {"kv-fp8": "fp8_e4m3fn"}
READ_CACHES: Mapping[str, str] = dict.fromkeys(("fp8_e4m3fn", "fp8_e5m2", "fp8-e4m3fn", "fp8-e5m2"), "kv-fp8")


def write(scenario: GenerationScenario) -> Launch:
    """Return the command of a server, or the script of several.

    Raises:
        InputError: The plan has degrees or pools that the engine does not have.
    """
    refuse(list(_problems(scenario)))
    plan = scenario.plan
    model, unknown = model_argument(scenario)
    switches = (f"PREFIX_CACHING={int(plan.prefix_cache)}", f"PREFILL_CHUNKING={int(plan.chunked_prefill)}")
    command = Command(
        words=("env", *switches, "text-generation-launcher", "--model-id", model),
        arguments=_arguments(scenario),
        of_node=_of_node,
    )
    notes = [*unknown, *requested_formats(scenario, WEIGHTS).notes, *_notes(scenario)]
    return launch(scenario, {"": command}, port=PORT, notes=notes)


def _problems(scenario: GenerationScenario) -> Iterator[str]:
    """What the engine cannot launch."""
    yield from one_node_problems(scenario, "pipeline_parallel", "data_parallel", "expert_parallel")
    if scenario.plan.dtype == "fp32":
        yield "plan.dtype is fp32; TGI computes in float16 or bfloat16"


def _arguments(scenario: GenerationScenario) -> Arguments:
    """The options that every server has."""
    plan, formats = scenario.plan, requested_formats(scenario, WEIGHTS)
    stated = {
        "--num-shard": plan.tensor_parallel,
        "--dtype": None if formats.weights else DTYPES.get(plan.dtype),
        "--quantize": formats.weights or None,
        "--kv-cache-dtype": CACHES.get(formats.cache),
        "--max-input-tokens": scenario.workload.prompt_tokens,
        "--max-total-tokens": longest(scenario),
        "--max-batch-prefill-tokens": budget(scenario, plan),
        "--max-batch-size": sequences(scenario, "", plan),
        "--max-concurrent-requests": plan.max_concurrent_requests,
        "--cuda-memory-fraction": plan.memory_fraction,
        "--cuda-graphs": None if plan.cuda_graphs else 0,
        "--speculate": None if plan.speculative is None else int(plan.speculative.tokens),
    }
    return without_none(stated)


def _of_node(server: Server, _rank: int, _address: str) -> Arguments:
    """What servers on one node have of their own."""
    return {"--master-port": RANKS_PORT + server.number, "--shard-uds-path": f"/tmp/tgi-{server.number}"}  # noqa: S108


def _notes(scenario: GenerationScenario) -> Iterator[str]:
    yield from budget_notes(scenario)
    yield from unwritten_notes(scenario, "kv_block_tokens")
    formats = requested_formats(scenario, WEIGHTS)
    if formats.cache not in ("", *CACHES):
        yield "plan.quantization kv-int8: TGI keeps no cache in int8"
    if formats.weights and scenario.plan.dtype != "bf16":
        yield f"plan.dtype {scenario.plan.dtype}: TGI takes no --dtype next to --quantize"
    if scenario.plan.speculative is not None:
        yield "plan.speculative: drafts come from the model's Medusa heads, else from the prompt's n-grams"


def _plan(options: Options, model: str) -> Mapping[str, Any]:
    """The keys of ``plan`` that a server's options say."""
    formats = quantization(options.word("quantize", READ_WEIGHTS), options.word("kv-cache-dtype", READ_CACHES), model)
    drafts = options.number("speculate")
    plan = {
        "tensor_parallel": options.number("num-shard") or 1,
        "dtype": options.word("dtype", READ_DTYPES) or None,
        "quantization": formats or None,
        "max_sequences": options.number("max-batch-size"),
        "max_concurrent_requests": options.number("max-concurrent-requests"),
        "max_batched_tokens": options.number("max-batch-prefill-tokens"),
        "chunked_prefill": options.flag("prefill-chunking"),
        "prefix_cache": options.flag("prefix-caching"),
        "memory_fraction": options.share("cuda-memory-fraction"),
        "cuda_graphs": False if options.text("cuda-graphs") == "0" else None,
        "speculative": {"tokens": drafts, "acceptance": dialect.ACCEPTANCE} if drafts else None,
    }
    return without_none(plan)


DIALECT = Dialect(
    engine="tgi",
    programs=(("text-generation-launcher",),),
    image="text-generation-inference",
    plan=_plan,
    models=("model-id",),
    aliases={"p": "port"},
    flags={"trust-remote-code", "json-output", "disable-custom-kernels"},
    longest="max-total-tokens",
    variables={
        "PREFIX_CACHING": "prefix-caching",
        "PREFILL_CHUNKING": "prefill-chunking",
        **{
            name.upper().replace("-", "_"): name
            for name in ("model-id", "num-shard", "quantize", "dtype", "kv-cache-dtype", "max-total-tokens")
        },
    },
    quiet={"master-port", "shard-uds-path", "max-input-tokens", "max-input-length", "sharded", "hostname"},
)

claims, read = dialect.of(DIALECT)
"""Whether what was given starts the engine's server, and the scenario that its servers make up."""
