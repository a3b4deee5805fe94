"""Formats of checkpoints by part, and weight files beside a config."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from sightline.errors import InputError
from sightline.loading.models import read_model, resolve_model
from sightline.loading.models.checkpoint import checkpoint_of


def group(kind: str, bits: int, *targets: str, **weights: Any) -> dict[str, Any]:
    return {"weights": {"type": kind, "num_bits": bits, **weights}, "input_activations": {}, "targets": list(targets)}


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "vocab_size": 100,
    "num_attention_heads": 4,
    "tie_word_embeddings": False,
}
ATTENTION, EXPERTS = group("float", 8, "re:.*self_attn.*"), group("float", 4, "re:.*mlp.experts.*", group_size=16)
FORMATS = {
    "one group": ({"config_groups": {"g": group("float", 8, "Linear")}}, "fp8", {}),
    "two groups": (
        {"config_groups": {"g": ATTENTION, "h": EXPERTS}},
        "nvfp4",
        {"attention": "fp8", "dense": "bf16", "shared": "bf16"},
    ),
    "a group beside all others": (
        {"config_groups": {"g": group("int", 4, "Linear"), "h": ATTENTION}},
        "w4a16",
        {"attention": "fp8"},
    ),
    "GPTQ with exceptions": (
        {"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*shared_expert.*": {}, "+:.*self_attn.*": {"bits": 8}}},
        "w4a16",
        {"attention": "w8a16", "shared": "bf16"},
    ),
    "AWQ": (
        {"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["self_attn"]},
        "w4a16",
        {"attention": "bf16"},
    ),
    "ModelOpt, part by part": (
        {
            "quantized_layers": {
                "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
                "model.layers.0.mlp.up_proj": {"quant_algo": "W4A16_NVFP4"},
            }
        },
        "nvfp4",
        {"attention": "fp8", "experts": "bf16", "shared": "bf16"},
    ),
    "Quark": (
        {
            "quant_method": "quark",
            "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}, "input_tensors": {"dtype": "fp4"}},
            "layer_quant_config": {"*self_attn*": {"weight": {"dtype": "fp8_e4m3"}}},
            "exclude": ["lm_head"],
        },
        "mxfp4",
        {"attention": "fp8"},
    ),
    "bitsandbytes without a method": (
        {"load_in_4bit": True, "llm_int8_skip_modules": ["self_attn"]},
        "nf4",
        {"attention": "bf16"},
    ),
    "TorchAO": ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}}, "w4a16", {}),
    "HQQ": ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 8}}}, "w8a16", {}),
    "EETQ": ({"quant_method": "eetq", "weights": "int8"}, "w8a16", {}),
    "MLX": ({"bits": 4, "group_size": 64}, "w4a16", {}),
    "Mistral": ({"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"}, "fp8", {}),
    "AutoRound with exceptions": (
        {"quant_method": "auto-round", "bits": 4, "extra_config": {"model.layers.0.self_attn.q_proj": {"bits": 16}}},
        "w4a16",
        {"attention": "bf16"},
    ),
    "GPT-OSS": (
        {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]},
        "mxfp4",
        {"attention": "bf16"},
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_each_part_has_its_format(name: str) -> None:
    said, weights, exceptions = FORMATS[name]
    found = checkpoint_of({"torch_dtype": "bfloat16", "quantization_config": said}, experts=True)
    assert (found.weights, dict(found.exceptions), found.remark) == (weights, exceptions, "")


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ({"quant_method": "gptq", "bits": 3}, "'gptq' of 3 bits"),
        ({"quant_method": "quux"}, "'quux'"),
        ({"config_groups": {"g": ATTENTION, "h": group("int", 3, "re:.*mlp.*")}}, "'num_bits': 3"),
        ({"quantized_layers": {"model.layers.0.mlp.up_proj": {"quant_algo": "QUUX"}}}, "mlp.up_proj of 'QUUX'"),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*mlp.*": {"bits": 3}}}, "+:.*mlp.* of {'bits': 3}"),
    ],
)
def test_a_format_that_nothing_knows_is_refused_unless_another_is_stated(said: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError) as caught:
        read_model({**LLAMA, "quantization_config": said})
    (problem,) = caught.value.problems
    assert named in problem
    assert read_model({**LLAMA, "quantization_config": said, "weights": "w4a16"}).model.weights == "w4a16"


@pytest.mark.parametrize("key", ["sparsity_config", "kv_cache_scheme", "quux"])
def test_a_key_of_the_formats_that_nothing_reads_is_named(key: str) -> None:
    said = {"quant_method": "fp8", key: {"type": "quux"}}
    assert read_model({**LLAMA, "quantization_config": said}).model.assumed == (
        f"ignored keys: quantization_config.{key}",
    )


CONFIG = {"model_type": "newthing", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8}
CONFIG |= {"num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 100, "rms_norm_eps": 1e-6}


def beside(folder: Path, config: dict[str, Any], shapes: dict[str, list[int]] | None = None, **index: Any) -> Any:
    """The model of a folder with a config, and a weight file with these tensors or an index."""
    (folder / "config.json").write_text(json.dumps(config))
    if shapes is not None:
        tensors = {name: {"dtype": "BF16", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
        header = json.dumps({"__metadata__": {"format": "pt"}, **tensors}).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    if index:
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return resolve_model(str(folder), folder)


def test_the_header_of_a_weight_file_says_whether_the_head_has_weights_of_its_own(tmp_path: Path) -> None:
    alone = beside(tmp_path, CONFIG).model
    assert alone.tied_embeddings
    size = alone.parameters + 6400
    both = beside(tmp_path, CONFIG, {"layers": [size - 6400], "lm_head.weight": [100, 64], "vision.x": [999]}).model
    assert (both.tied_embeddings, both.parameters) == (False, size)


def test_more_weights_than_the_config_describes_count(tmp_path: Path) -> None:
    alone = beside(tmp_path, CONFIG).model
    total = alone.parameters + 50_000
    found = beside(tmp_path, CONFIG, metadata={"total_parameters": total}, weight_map={"a": "b.safetensors"})
    assert found.model.parameters == total
    assert f"{total:,} parameters" in found.model.assumed[-1]


@pytest.mark.parametrize("text", ["", "{", "[1]", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"])
def test_what_is_no_weight_file_decides_nothing(tmp_path: Path, text: str) -> None:
    alone = beside(tmp_path, CONFIG).model
    (tmp_path / "model.safetensors").write_text(text)
    (tmp_path / "model.safetensors.index.json").write_text(text)
    assert beside(tmp_path, CONFIG).model == alone


def test_the_list_beside_the_params_of_mistral_counts_too(tmp_path: Path) -> None:
    config = {"dim": 64, "n_layers": 2, "n_heads": 8, "n_kv_heads": 2, "hidden_dim": 96, "vocab_size": 100}
    (tmp_path / "params.json").write_text(json.dumps(config))
    alone = resolve_model(".", tmp_path).model.parameters
    listed = {"metadata": {"total_parameters": alone + 50_000}, "weight_map": {"a": "b.safetensors"}}
    (tmp_path / "consolidated.safetensors.index.json").write_text(json.dumps(listed))
    assert resolve_model(".", tmp_path).model.parameters == alone + 50_000
