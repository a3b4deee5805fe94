"""llama.cpp: ``llama-server`` with the weights of a GGUF file, layers split over the devices of a node."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sightline.launching.engines import dialect
from sightline.launching.engines.dialect import Dialect
from sightline.launching.engines.requests import (
    longest,
    model_argument,
    published_format,
    requested_formats,
    sequences,
    unwritten_notes,
)
from sightline.launching.engines.servers import Arguments, Command, Server, launch, one_node_problems
from sightline.launching.launch import Launch, refuse
from sightline.launching.options import Options, without_none
from sightline.scenario import GenerationScenario
from sightline.scenario.precision import WEIGHT_FORMATS

PORT = 8080
BATCH = 2048
"""Tokens of the program's logical batch where nothing else is said; a plan's budget is that of the physical one."""
ALL_LAYERS = 999
"""More layers than any model has: all of them on devices, in releases too that know no word for it."""
WEIGHTS: Mapping[str, str] = {"q4_0": "q4_0", "q4_k_m": "q4_k_m", "w8a16": "q8_0", "int8": "q8_0"}
"""Formats of GGUF files."""
READ_WEIGHTS: Mapping[str, str] = {"q4_0": "q4_0", "q4_k_m": "q4_k_m", "q8_0": "w8a16"}
READ_CACHES: Mapping[str, str] = {"q8_0": "kv-int8", **dict.fromkeys(("f16", "bf16", "f32"), "")}
_FORMAT = re.compile(r"[-._:](i?q\d\w*|bf16|f16|f32|fp16)$", re.IGNORECASE)
_GGUF = re.compile(r"([-._]gguf)$", re.IGNORECASE)


def write(scenario: GenerationScenario) -> Launch:
    """Return the command of a server, or the script of several.

    Raises:
        InputError: The plan has degrees or pools that the program does not have.
    """
    refuse([*one_node_problems(scenario, "tensor_parallel", "data_parallel", "expert_parallel")])
    model, _ = model_argument(scenario)
    file = f"{model.rpartition('/')[2].lower()}-{_format(scenario)}.gguf"
    switches = () if scenario.plan.cuda_graphs else ("env", "GGML_CUDA_DISABLE_GRAPHS=1")
    command = Command(words=(*switches, "llama-server"), arguments=_arguments(scenario, file), of_node=_of_node)
    made = f"model: {file} is what convert_hf_to_gguf.py and llama-quantize make of {model}"
    return launch(scenario, {"": command}, port=PORT, notes=[made, *_notes(scenario)])


def _stated(scenario: GenerationScenario) -> str:
    """The format of the weights that a plan states."""
    return next((word for word in scenario.plan.quantization or () if word in WEIGHT_FORMATS), "")


def _format(scenario: GenerationScenario) -> str:
    """The format of the GGUF file: unquantized weights are in 16 bits."""
    return WEIGHTS.get(_stated(scenario) or scenario.model.weights, "bf16" if scenario.plan.dtype == "bf16" else "f16")


def _arguments(scenario: GenerationScenario, file: str) -> Arguments:
    """The options that every server has."""
    plan, slots = scenario.plan, sequences(scenario, "", scenario.plan)
    stages, budget = int(plan.pipeline_parallel), plan.max_batched_tokens
    quantized = "q8_0" if requested_formats(scenario, WEIGHTS).cache == "kv-int8" else None
    stated = {
        "-m": file,
        "-ngl": ALL_LAYERS,
        "--split-mode": "layer" if stages > 1 else "none",
        "--tensor-split": ",".join(["1"] * stages) if stages > 1 else None,
        "-c": longest(scenario) * slots,
        "-np": slots,
        "-b": None if budget is None else max(int(budget), BATCH),
        "-ub": budget,
        "-fa": "on" if quantized else None,
        "-ctk": quantized,
        "-ctv": quantized,
        "--cache-prompt" if plan.prefix_cache else "--no-cache-prompt": True,
    }
    return without_none(stated)


def _of_node(_server: Server, _rank: int, address: str) -> Arguments:
    """What lets other nodes reach a server."""
    return {} if address == "localhost" else {"--host": "0.0.0.0"}  # noqa: S104


def _notes(scenario: GenerationScenario) -> Iterator[str]:
    stated = _stated(scenario)
    if stated and stated not in WEIGHTS:
        yield f"plan.quantization {stated}: no format of GGUF; the file is in 16 bits"
    if requested_formats(scenario, WEIGHTS).cache == "kv-fp8":
        yield "plan.quantization kv-fp8: llama.cpp keeps no cache in fp8"
    if not stated and scenario.plan.quantization is None and scenario.model.weights in WEIGHT_FORMATS:
        yield f"plan.quantization: the checkpoint is published in {scenario.model.weights}; the file is in 16 bits"
    if scenario.plan.dtype not in ("fp16", _format(scenario)):
        yield f"plan.dtype {scenario.plan.dtype}: llama.cpp computes in fp16 with such a file"
    if scenario.plan.speculative is not None:
        yield "plan.speculative: name a draft model in -md, with --draft-max"
    yield from unwritten_notes(scenario, "memory_fraction", "kv_block_tokens", "chunked_prefill")


def _file_format(written: str) -> tuple[str, str]:
    """A GGUF file or repository without its format, and the format."""
    name = written.removesuffix(".gguf")
    found = _FORMAT.search(name)
    bare = _FORMAT.sub("", name)
    return _GGUF.sub("", bare), found[1].lower() if found else ""


def _plan(options: Options, model: str) -> Mapping[str, Any]:
    """The keys of ``plan`` that a server's options say."""
    # Without either option layers are split over all devices that the program sees.
    stages = options.text("tensor-split").count(",") + 1 if options.text("tensor-split") else None
    written = _file_format(options.text("hf-file") or options.text("model") or options.text("hf-repo"))[1]
    options.word("cache-type-v", READ_CACHES)
    formats = [*filter(None, [READ_WEIGHTS.get(written, ""), options.word("cache-type-k", READ_CACHES)])]
    if not formats and written in ("bf16", "f16", "fp16", "f32") and published_format(model):
        formats = ["none"]
    plan = {
        "pipeline_parallel": 1 if options.text("split-mode") == "none" else stages,
        "dtype": "bf16" if written == "bf16" else None,
        "quantization": formats or None,
        "max_sequences": options.number("parallel", least=-1),
        "max_batched_tokens": options.number("ubatch-size"),
        "prefix_cache": options.flag("cache-prompt"),
        "cuda_graphs": False if options.flag("disable-graphs") else None,
    }
    return {key: value for key, value in plan.items() if value not in (None, -1, 0) or value is False}


DIALECT = Dialect(
    engine="llama.cpp",
    programs=(("llama-server",),),
    image="llama.cpp",
    plan=_plan,
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
    },
    flags={"cont-batching", "mlock", "cache-prompt"},
    variables={"GGML_CUDA_DISABLE_GRAPHS": "disable-graphs"},
    quiet={"ctx-size", "batch-size", "flash-attn", "gpu-layers", "threads", "t", "jinja", "alias", "a"},
)

claims, read = dialect.of(DIALECT)
"""Whether what was given starts the engine's server, and the scenario that its servers make up."""
