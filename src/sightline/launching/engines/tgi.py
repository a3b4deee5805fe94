"""Text Generation Inference: ``text-generation-launcher`` of release 3.3, one server on the devices of a node."""

from collections.abc import Iterator, Mapping, Sequence

from sightline.launching.engines.dialect import Dialect, Row, degree, drafts, formats, memory_share, number
from sightline.launching.engines.requests import DTYPES, READ_DTYPES, Request, budget_notes
from sightline.launching.engines.servers import Arguments, Server
from sightline.launching.options import Options
from sightline.launching.table import Option

RANKS_PORT = 29500
"""First port of the exchange among a server's ranks."""
WEIGHTS: Mapping[str, str] = {
    "fp8": "fp8",
    **dict.fromkeys(("w8a16", "int8"), "eetq"),
    "llm-int8": "bitsandbytes",
    "nf4": "bitsandbytes-nf4",
}
"""Formats that the engine converts 16-bit weights to while it loads them."""
READ_WEIGHTS: Mapping[str, str] = {
    "fp8": "fp8",
    "eetq": "w8a16",
    "bitsandbytes": "llm-int8",
    "bitsandbytes-nf4": "nf4",
    "bitsandbytes-fp4": "nf4",
    **dict.fromkeys(("awq", "gptq", "marlin", "exl2"), "w4a16"),
    "compressed-tensors": "",
}
READ_CACHES: Mapping[str, str] = dict.fromkeys(("fp8_e4m3fn", "fp8_e5m2", "fp8-e4m3fn", "fp8-e5m2"), "kv-fp8")


def _dtype(request: Request) -> str | None:
    return None if request.formats.weights else DTYPES.get(request.plan.dtype)


def _stated_graphs(options: Options) -> bool | None:
    return False if options.text("cuda-graphs") == "0" else None


OPTIONS: Sequence[Row] = (
    degree("--num-shard", "tensor_parallel", always=True),
    Option("--dtype", "dtype", _dtype, lambda options: options.word("dtype", READ_DTYPES) or None),
    *formats("--quantize", READ_WEIGHTS, "--kv-cache-dtype", "tgi", READ_CACHES),
    Option("--max-input-tokens", write=lambda request: request.scenario.workload.prompt_tokens),
    Option("--max-total-tokens", write=lambda request: request.longest),
    number("--max-batch-prefill-tokens", "max_batched_tokens", lambda request: request.budget),
    number("--max-batch-size", "max_sequences", lambda request: request.sequences),
    number("--max-concurrent-requests", "max_concurrent_requests"),
    Option("", "chunked_prefill", read=lambda options: options.flag("prefill-chunking")),
    Option("", "prefix_cache", read=lambda options: options.flag("prefix-caching")),
    memory_share("--cuda-memory-fraction"),
    Option("--cuda-graphs", "cuda_graphs", lambda r: None if r.plan.cuda_graphs else 0, _stated_graphs),
    drafts("--speculate", lambda request: request.drafts, lambda options: options.number("speculate")),
)


def _words(request: Request, model: str) -> tuple[str, ...]:
    plan = request.plan
    switches = (f"PREFIX_CACHING={int(plan.prefix_cache)}", f"PREFILL_CHUNKING={int(plan.chunked_prefill)}")
    return ("env", *switches, "text-generation-launcher", "--model-id", model)


def _of_node(_request: Request, server: Server, _rank: int, _address: str) -> Arguments:
    """What servers on one node have of their own."""
    return {"--master-port": RANKS_PORT + server.number, "--shard-uds-path": f"/tmp/tgi-{server.number}"}  # noqa: S108


def _notes(requests: Sequence[Request]) -> Iterator[str]:
    request = requests[-1]
    yield from budget_notes(request)
    if request.formats.weights and request.plan.dtype != "bf16":
        yield f"plan.dtype {request.plan.dtype}: TGI takes no --dtype next to --quantize"
    if request.plan.speculative is not None:
        yield "plan.speculative: drafts come from the model's Medusa heads, else from the prompt's n-grams"


DIALECT = Dialect(
    engine="tgi",
    options=OPTIONS,
    programs=(("text-generation-launcher",),),
    image="text-generation-inference",
    words=_words,
    port=3000,
    weights=WEIGHTS,
    notes=_notes,
    of_node=_of_node,
    models=("model-id",),
    aliases={"p": "port"},
    flags={"trust-remote-code", "json-output", "disable-custom-kernels"},
    longest="max-total-tokens",
    variables={"PREFIX_CACHING": "prefix-caching", "PREFILL_CHUNKING": "prefill-chunking"},
    prefix_of_options="",
)
claims, read, write = DIALECT.claims, DIALECT.read, DIALECT.write
