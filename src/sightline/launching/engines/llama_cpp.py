"""llama.cpp: ``llama-server`` with the weights of a GGUF file, layers split over the devices of a node."""

import re
from collections.abc import Iterator, Mapping, Sequence

from sightline.launching.engines.dialect import Dialect, Row, drafts, number, off, reachable, switch
from sightline.launching.engines.requests import Request, model_argument, published_format
from sightline.launching.engines.rules import GGUF, gguf_weights
from sightline.launching.options import Options
from sightline.launching.table import Option
from sightline.scenario import GenerationScenario

BATCH = 2048
"""Tokens of the program's logical batch where nothing else is said; a plan's budget is that of the physical one."""
ALL_LAYERS = 999
"""More layers than any model has: all of them on devices, in releases too that know no word for it."""
DRAFT = "${DRAFT:?}"
"""The file of a draft model, which only the user knows."""
READ_WEIGHTS: Mapping[str, str] = {"q4_0": "q4_0", "q4_k_m": "q4_k_m", "q8_0": "w8a16", "mxfp4": "mxfp4"}
READ_CACHES: Mapping[str, str] = {"q8_0": "kv-int8", **dict.fromkeys(("f16", "bf16", "f32"), "")}
_FORMAT = re.compile(r"[-._:](i?q\d\w*|mxfp4|bf16|f16|f32|fp16)$", re.IGNORECASE)
_GGUF = re.compile(r"([-._]gguf)$", re.IGNORECASE)


def _format(scenario: GenerationScenario) -> str:
    """The format of the GGUF file: unquantized weights are in 16 bits."""
    plain = "bf16" if scenario.plan.dtype == "bf16" else "f16"
    return GGUF.get(gguf_weights(scenario.model, scenario.plan.quantization), plain)


def _model(scenario: GenerationScenario) -> tuple[str, tuple[str]]:
    """The GGUF file of a model, and how it is made."""
    model, _ = model_argument(scenario)
    file = f"{model.rpartition('/')[2].lower()}-{_format(scenario)}.gguf"
    return file, (f"model: {file} is what convert_hf_to_gguf.py and llama-quantize make of {model}",)


def _file_format(written: str) -> tuple[str, str]:
    """A GGUF file or repository without its format, and the format."""
    name = written.removesuffix(".gguf")
    found = _FORMAT.search(name)
    bare = _FORMAT.sub("", name)
    return _GGUF.sub("", bare), found[1].lower() if found else ""


def _named_format(options: Options) -> str:
    return _file_format(options.text("hf-file") or options.text("model") or options.text("hf-repo"))[1]


def _quantization(options: Options) -> list[str] | None:
    written = _named_format(options)
    options.word("cache-type-v", READ_CACHES)
    formats = [*filter(None, [READ_WEIGHTS.get(written, ""), options.word("cache-type-k", READ_CACHES)])]
    if not formats and written in ("bf16", "f16", "fp16", "f32") and published_format(options.model):
        formats = ["none"]
    return formats or None


def _stages(options: Options) -> int | None:
    """Devices that layers are split over: without either option all that the program sees."""
    split, mode = options.text("tensor-split"), options.word("split-mode", {"none": "none", "layer": "layer"})
    return 1 if mode == "none" else split.count(",") + 1 if split else None


def _slots(options: Options) -> int | None:
    slots = options.number("parallel", least=-1)
    return slots if slots not in (-1, 0) else None


def _cache(request: Request) -> str | None:
    return "q8_0" if request.formats.cache == "kv-int8" else None


def _split(request: Request) -> str | None:
    stages = int(request.plan.pipeline_parallel)
    return ",".join(["1"] * stages) if stages > 1 else None


def _batch(request: Request) -> int | None:
    budget = request.plan.max_batched_tokens
    return None if budget is None else max(int(budget), BATCH)


def _draft(request: Request) -> str | None:
    """The file of a draft model, where the model has no layer that predicts further tokens."""
    return None if request.drafts is None or request.scenario.model.prediction_layers else DRAFT


OPTIONS: Sequence[Row] = (
    Option("-m", write=lambda request: _model(request.scenario)[0]),
    Option("-ngl", write=lambda _: ALL_LAYERS),
    Option("--split-mode", "pipeline_parallel", lambda request: "layer" if _split(request) else "none", _stages),
    Option("", "dtype", read=lambda options: "bf16" if _named_format(options) == "bf16" else None),
    Option("", "quantization", read=_quantization),
    Option("--tensor-split", write=_split),
    Option("-c", write=lambda request: request.longest * (request.sequences or 1)),
    Option("-np", "max_sequences", lambda request: request.sequences, _slots),
    Option("-b", write=_batch),
    number("-ub", "max_batched_tokens"),
    Option("-fa", write=lambda request: "on" if _cache(request) else None),
    Option("-ctk", write=_cache),
    Option("-ctv", write=_cache),
    switch("--cache-prompt", "prefix_cache"),
    Option("-md", write=_draft),
    Option("--spec-type", write=lambda request: "draft-mtp" if request.drafts and _draft(request) is None else None),
    drafts("--spec-draft-n-max", lambda r: r.drafts, lambda options: options.number("spec-draft-n-max")),
    Option("", "cuda_graphs", read=off("disable-graphs")),
)


def _words(request: Request, _: str) -> tuple[str, ...]:
    switches = () if request.plan.cuda_graphs else ("env", "GGML_CUDA_DISABLE_GRAPHS=1")
    return (*switches, "llama-server")


def _notes(requests: Sequence[Request]) -> Iterator[str]:
    if _draft(requests[-1]) == DRAFT:
        yield "plan.speculative: DRAFT in the environment is the GGUF file of a draft model"


DIALECT = Dialect(
    engine="llama.cpp",
    options=OPTIONS,
    programs=(("llama-server",),),
    image="llama.cpp",
    words=_words,
    port=8080,
    model=_model,
    says_formats=False,
    notes=_notes,
    of_node=reachable,
    models=("model", "hf-repo", "hf-file"),
    called=lambda written: _file_format(written)[0],
    aliases={
        "m": "model",
        "hf": "hf-repo",
        "hfr": "hf-repo",
        "hff": "hf-file",
        "np": "parallel",
        "c": "ctx-size",
        "b": "batch-size",
        "ub": "ubatch-size",
        "ctk": "cache-type-k",
        "ctv": "cache-type-v",
        "sm": "split-mode",
        "ts": "tensor-split",
        "ngl": "gpu-layers",
        "n-gpu-layers": "gpu-layers",
        "fa": "flash-attn",
        "md": "model-draft",
        **dict.fromkeys(("draft-max", "draft"), "spec-draft-n-max"),
    },
    flags={"cont-batching", "mlock", "cache-prompt"},
    variables={"GGML_CUDA_DISABLE_GRAPHS": "disable-graphs"},
    prefix_of_options="LLAMA_ARG_",
)
claims, read, write = DIALECT.claims, DIALECT.read, DIALECT.write
