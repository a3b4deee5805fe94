"""Hugging Face transformers: ``transformers serve`` of release 5 with continuous batching, on one device."""

from collections.abc import Iterator, Mapping, Sequence

from sightline.launching.engines.dialect import (
    Dialect,
    Row,
    compute_dtype,
    formats,
    memory_share,
    number,
    reachable,
    switch,
)
from sightline.launching.engines.requests import Request
from sightline.launching.table import Option
from sightline.loading.clusters.this_machine import THIS_MACHINE

WEIGHTS: Mapping[str, str] = {"nf4": "bnb-4bit", "llm-int8": "bnb-8bit"}
"""Formats that it converts weights to while it loads them."""
READ_WEIGHTS: Mapping[str, str] = {"bnb-4bit": "nf4", "bnb-8bit": "llm-int8"}


def _device(request: Request) -> str:
    return "cpu" if request.scenario.cluster.device.name == THIS_MACHINE else "cuda"


OPTIONS: Sequence[Row] = (
    Option("--continuous-batching", write=lambda _: True),
    Option("--device", write=_device),
    compute_dtype("--dtype"),
    *formats("--quantization", READ_WEIGHTS),
    number("--cb-block-size", "kv_block_tokens", lambda request: request.block_tokens),
    number("--cb-max-batch-tokens", "max_batched_tokens"),
    memory_share("--cb-max-memory-percent"),
    switch("--cb-use-cuda-graph", "cuda_graphs"),
    Option("", "prefix_cache", read=lambda _: True),
)


def _notes(requests: Sequence[Request]) -> Iterator[str]:
    if not requests[-1].plan.prefix_cache:
        yield "plan.prefix_cache False: transformers serve always shares the blocks of equal prefixes"


DIALECT = Dialect(
    engine="transformers",
    options=OPTIONS,
    programs=(("transformers", "serve"),),
    image="",
    words=lambda _, model: ("transformers", "serve", model),
    port=8000,
    weights=WEIGHTS,
    notes=_notes,
    of_node=reachable,
    models=("force-model",),
    positional=True,
    flags={"continuous-batching", "compile", "trust-remote-code", "enable-cors", "non-blocking", "cb-use-cuda-graph"},
)
claims, read, write = DIALECT.claims, DIALECT.read, DIALECT.write
