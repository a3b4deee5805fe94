"""Families beyond the plain dense ones: their parameters, layers and checkpoints, against transformers and model cards."""

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from sightline.errors import InputError
from sightline.loading import scenario_from_mapping
from sightline.loading.models import resolve_model
from sightline.loading.models.config import read_model
from sightline.loading.models.family import MODEL, families, family_of, spellings
from sightline.scenario import Heads, Model

CONFIGS = Path(os.environ.get("SIGHTLINE_DATA") or Path(__file__).parents[3] / "shared" / "data") / "model_configs"

PLAIN = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 500,
}
ROUTED = PLAIN | {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
DEEPSEEK = {"n_routed_experts": 8, "n_shared_experts": 2, "first_k_dense_replace": 1}
LATENT = {"kv_lora_rank": 16, "q_lora_rank": 24, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
INDEX = {"index_topk": 8, "index_n_heads": 2, "index_head_dim": 16}
DELTA = {
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
MAMBA = {"mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 16, "conv_kernel": 4}
FALCON = {k: v for k, v in PLAIN.items() if k not in {"intermediate_size", "num_key_value_heads"}}
FOLDED = {"q_lora_rank": 24, "o_lora_rank": 8, "o_groups": 2, "head_dim": 32, "sliding_window": 16, "hc_mult": 4}
PAIRS = ["sliding_attention", "full_attention"] * 2

SMALL: dict[str, dict[str, Any]] = {
    "qwen3": PLAIN | {"head_dim": 32},
    "phi3": PLAIN,
    "gemma": PLAIN,
    "gemma2": PLAIN,
    "gemma3_text": PLAIN,
    "gemma4_text": PLAIN
    | {"hidden_size_per_layer_input": 0, "global_head_dim": 32, "head_dim": 16, "attention_k_eq_v": True}
    | {"num_global_key_value_heads": 1, "num_kv_shared_layers": 0, "layer_types": PAIRS},
    "cohere2": PLAIN,
    "stablelm": PLAIN,
    "glm4": PLAIN,
    "nemotron": PLAIN,
    "seed_oss": PLAIN,
    "smollm3": PLAIN,
    "starcoder2": PLAIN,
    "gpt_bigcode": {"n_embd": 64, "n_layer": 4, "n_head": 4, "vocab_size": 500, "n_positions": 64},
    "falcon": FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2, "multi_query": True},
    "mixtral": PLAIN | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "phimoe": PLAIN | {"num_local_experts": 4, "num_experts_per_tok": 2, "attention_bias": True},
    "qwen3_moe": ROUTED | {"num_experts": 8, "decoder_sparse_step": 2, "mlp_only_layers": [3], "head_dim": 16},
    "qwen2_moe": ROUTED | {"num_experts": 8, "shared_expert_intermediate_size": 64, "decoder_sparse_step": 2},
    "qwen3_next": ROUTED | DELTA | {"num_experts": 8, "shared_expert_intermediate_size": 64, "head_dim": 16},
    "qwen3_5_text": PLAIN | DELTA | {"head_dim": 16},
    "deepseek_v2": ROUTED | DEEPSEEK | LATENT,
    "deepseek_v3": ROUTED | DEEPSEEK | LATENT,
    "deepseek_v32": ROUTED | DEEPSEEK | LATENT | INDEX,
    "deepseek_v4": {k: v for k, v in ROUTED.items() if k != "intermediate_size"}
    | FOLDED
    | INDEX
    | {"n_routed_experts": 8, "n_shared_experts": 1, "num_key_value_heads": 1, "compress_ratios": [0, 4, 128, 4, 0]},
    "glm4_moe": ROUTED | DEEPSEEK | {"use_qk_norm": True, "attention_bias": True, "head_dim": 16},
    "glm4_moe_lite": ROUTED | DEEPSEEK | LATENT,
    "glm_moe_dsa": ROUTED | DEEPSEEK | LATENT | INDEX | {"index_topk_freq": 2},
    "dots1": ROUTED | DEEPSEEK,
    "minimax_m2": PLAIN | {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16},
    "gpt_oss": PLAIN | {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16, "layer_types": PAIRS},
    "llama4_text": PLAIN
    | {"num_local_experts": 4, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2}
    | {"intermediate_size_mlp": 128, "head_dim": 16},
    "nemotron_h": ROUTED
    | MAMBA
    | {"hybrid_override_pattern": "M*-E", "n_routed_experts": 4, "n_shared_experts": 1, "head_dim": 16}
    | {"moe_shared_expert_intermediate_size": 48, "mlp_hidden_act": "relu2"},
}

TOTALS = {
    # Model cards and technical reports; language model without prediction layers.
    "deepseek-ai--DeepSeek-V3": 671e9,
    "deepseek-ai--DeepSeek-R1": 671e9,
    "deepseek-ai--DeepSeek-V4-Flash": 284e9,
    "deepseek-v2-lite": 15.7e9,
    "moonshotai--Kimi-K2-Instruct": 1.03e12,  # tensors of the checkpoint; the card rounds to 1T
    "zai-org--GLM-5": 744e9,
    "MiniMaxAI--MiniMax-M2.5": 229e9,
    "nvidia--MiniMax-M3-NVFP4": 428e9,
    "XiaomiMiMo--MiMo-V2-Flash": 309e9,
    "Qwen--Qwen3-30B-A3B": 30.5e9,
    "Qwen--Qwen3-235B-A22B": 235e9,
    "Qwen--Qwen3-Coder-480B-A35B-Instruct": 480e9,
    "Qwen--Qwen3.5-397B-A17B": 397e9,
    "Qwen--Qwen3.5-27B": 27e9,
    "openai--gpt-oss-120b": 116.83e9,
    "openai--gpt-oss-20b": 20.91e9,
    "mistralai--Mixtral-8x7B-v0.1": 46.7e9,
    "mistralai--Mixtral-8x22B-v0.1": 141e9,
    "nvidia--Gemma-4-26B-A4B-NVFP4": 25.2e9,
    "nvidia--Gemma-4-31B-IT-NVFP4": 30.7e9,
    "nvidia--Llama-3_3-Nemotron-Super-49B-v1": 49.9e9,
    "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": 31.6e9,
    "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8": 120.6e9,
}
ACTIVE = {
    "mistralai--Mixtral-8x7B-v0.1": 12.9e9,
    "Qwen--Qwen3-235B-A22B": 22e9,
    "nvidia--Gemma-4-26B-A4B-NVFP4": 3.8e9,
    "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": 3.6e9,
    "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8": 12.7e9,
    "deepseek-ai--DeepSeek-V3": 37.55e9,
}
needs_configs = pytest.mark.skipif(not CONFIGS.is_dir(), reason=f"no configs in {CONFIGS}; SIGHTLINE_DATA names them")


def read(config: Any) -> Model:
    return resolve_model(config, Path()).model


def published(name: str) -> Model:
    return read(str(CONFIGS / f"{name}.json"))


def problems(config: Any) -> str:
    with pytest.raises(InputError) as caught:
        resolve_model(config, Path())
    return str(caught.value)


def small(family: str, **changes: Any) -> dict[str, Any]:
    return SMALL[family] | {"model_type": family} | changes


@pytest.mark.slow
@pytest.mark.parametrize("family", SMALL)
def test_parameters_are_those_of_the_real_model_class(family: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.AutoConfig.for_model(family, **SMALL[family], pad_token_id=0)
    with torch.device("meta"):
        real = transformers.AutoModelForCausalLM.from_config(config)
    # Sinks, gates of shared experts and other vectors are left out.
    assert read(small(family)).parameters == pytest.approx(sum(p.numel() for p in real.parameters()), rel=0.002)


@needs_configs
def test_every_published_config_is_read() -> None:
    paths = sorted(CONFIGS.glob("*.json"))
    assert len(paths) > 60
    for path in paths:
        model = read(str(path))
        assert model.parameters >= model.active_parameters > 1e9
        assert sum(kind.count for kind in model.kinds) == model.layers


@needs_configs
@pytest.mark.parametrize(("name", "total"), TOTALS.items())
def test_parameters_are_those_of_the_model_card(name: str, total: float) -> None:
    assert published(name).parameters == pytest.approx(total, rel=0.005)


@needs_configs
@pytest.mark.parametrize(("name", "active"), ACTIVE.items())
def test_active_parameters_are_those_of_the_model_card(name: str, active: float) -> None:
    assert published(name).active_parameters == pytest.approx(active, rel=0.01)


@needs_configs
@pytest.mark.parametrize(
    ("name", "weights", "exceptions", "cache"),
    [
        ("Qwen--Qwen3-32B", "bf16", {}, None),
        ("Qwen--Qwen3-32B-FP8", "fp8-block", {}, None),
        ("Qwen--Qwen3-32B-FP8-Static-PerTensor", "fp8", {}, "fp8"),
        ("llama-2-7b-hf", "fp16", {}, None),
        ("llama-4-scout-17b-16e-instruct-fp8-dynamic", "fp8", {"attention": "bf16"}, None),
        ("openai--gpt-oss-120b", "mxfp4", {"attention": "bf16"}, None),
        ("moonshotai--Kimi-K2.5", "w4a16", dict.fromkeys(("attention", "shared", "dense"), "bf16"), None),
        ("nvidia--Kimi-K2.5-NVFP4", "nvfp4", {"attention": "bf16"}, "fp8"),
        ("nvidia--GLM-5.1-NVFP4", "nvfp4", {"attention": "bf16", "shared": "bf16"}, "fp8"),
        ("nvidia--Gemma-4-26B-A4B-NVFP4", "nvfp4", {"attention": "bf16", "shared": "bf16"}, "fp8"),
        ("nvidia--Gemma-4-31B-IT-NVFP4", "nvfp4", {"attention": "bf16"}, "fp8"),
        (
            "nvidia--MiniMax-M3-NVFP4",
            "nvfp4",
            dict.fromkeys(("attention", "shared", "dense"), "fp8-block"),
            None,
        ),
        (
            "nvidia--DeepSeek-V4-Flash-NVFP4",
            "nvfp4",
            dict.fromkeys(("attention", "shared", "dense"), "fp8-block"),
            None,
        ),
        (
            "deepseek-ai--DeepSeek-V4-Flash",
            "mxfp4",
            dict.fromkeys(("attention", "shared", "dense"), "fp8-block"),
            None,
        ),
    ],
)
def test_the_checkpoint_says_its_formats(
    name: str, weights: str, exceptions: dict[str, str], cache: str | None
) -> None:
    model = published(name)
    assert (model.weights, dict(model.weight_exceptions), model.kv_cache) == (weights, exceptions, cache)
    assert model.format_of("experts") == weights
    assert model.format_of("attention") == exceptions.get("attention", weights)
    assert model.format_of("head") == "bf16"


def kinds(config: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(kind.mixer, kind.mlp, kind.count) for kind in read(config).kinds]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (small("qwen3"), [("attention", "dense", 4)]),
        (small("mixtral"), [("attention", "experts", 4)]),
        (small("gemma2"), [("sliding", "dense", 2), ("attention", "dense", 2)]),
        (small("deepseek_v3"), [("latent", "dense", 1), ("latent", "experts", 3)]),
        (small("deepseek_v32"), [("sparse", "dense", 1), ("sparse", "experts", 3)]),
        (small("qwen3_next"), [("linear", "experts", 3), ("attention", "experts", 1)]),
        (small("qwen3_moe"), [("attention", "dense", 3), ("attention", "experts", 1)]),
        (small("qwen3_moe", mlp_only_layers=[]), [("attention", "dense", 2), ("attention", "experts", 2)]),
        (
            small("nemotron_h"),
            [("state-space", "none", 1), ("attention", "none", 1), ("none", "dense", 1), ("none", "experts", 1)],
        ),
        (
            small("llama4_text"),
            [("chunked", "dense", 2), ("chunked", "experts", 1), ("attention", "experts", 1)],
        ),
        (small("qwen3", num_hidden_layers=2, layer_types=["full_attention"] * 4), [("attention", "dense", 2)]),
        (
            small("qwen3", use_sliding_window=True, sliding_window=8, max_window_layers=3),
            [("attention", "dense", 3), ("sliding", "dense", 1)],
        ),
        (small("qwen3", use_sliding_window=False, sliding_window=8), [("attention", "dense", 4)]),
        (small("gemma2", sliding_window=None), [("attention", "dense", 4)]),
    ],
)
def test_what_the_layers_are_made_of(config: dict[str, Any], expected: list[tuple[str, str, int]]) -> None:
    assert kinds(config) == expected


def test_folded_layers_say_how_many_tokens_become_one() -> None:
    folded = [(kind.compression, kind.indexed, kind.count) for kind in read(small("deepseek_v4")).kinds]
    assert folded == [(1, False, 1), (4, True, 2), (128, False, 1)]


def test_layers_may_share_an_indexer() -> None:
    model = read(small("glm_moe_dsa", index_topk_freq=2, index_skip_topk_offset=2))
    assert [(kind.indexed, kind.count) for kind in model.kinds] == [(True, 1), (True, 2), (False, 1)]
    alone = read(small("glm_moe_dsa", index_topk_freq=1))
    assert alone.parameters > model.parameters


def test_windowed_layers_may_have_heads_of_their_own() -> None:
    full, sliding = (read(small("gemma4_text")).kinds[i] for i in (1, 0))
    assert sliding.attention is None
    assert full.attention == Heads(heads=4, kv_heads=1, head_dim=32, values_are_keys=True)


def test_experts_beside_a_dense_mlp_share_it() -> None:
    experts = read(small("gemma4_text", num_experts=4, top_k_experts=2, moe_intermediate_size=8)).experts
    assert experts is not None
    assert (experts.count, experts.per_token, experts.width, experts.shared, experts.shared_width) == (4, 2, 8, 1, 96)


def test_pruned_layers_have_widths_of_their_own() -> None:
    base = {k: v for k, v in PLAIN.items() if k not in {"intermediate_size", "num_key_value_heads"}}
    blocks = [
        {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 6.0}},
        {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.0}},
        {"attention": {"n_heads_in_group": 4}, "ffn": {"no_op": True}},
        {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 6.0}},
    ]
    model = read(base | {"model_type": "nemotron-nas", "block_configs": blocks})
    made = [(k.mixer, k.mlp, k.count, k.attention and k.attention.kv_heads, k.intermediate_size) for k in model.kinds]
    assert made == [
        ("attention", "dense", 2, 2, 256),
        ("none", "dense", 1, None, 256),
        ("attention", "none", 1, 1, None),
    ]
    linear = [blocks[0] | {"attention": {"replace_with_linear": True}}] * 4
    assert "block_configs[0] replaces a block" in problems(
        base | {"model_type": "nemotron-nas", "block_configs": linear}
    )


def test_of_several_modalities_the_language_model_is_read() -> None:
    wrapped = {
        "model_type": "qwen3_5",
        "tie_word_embeddings": True,
        "vision_config": {"hidden_size": 7},
        "text_config": SMALL["qwen3_5_text"] | {"model_type": "qwen3_5_text"},
    }
    found = resolve_model(wrapped, Path())
    assert found.model.hidden_size == 64
    assert found.model.tied_embeddings
    assert "language model" in found.remarks[0]
    assert resolve_model(wrapped["text_config"], Path()).remarks == ()


def test_an_override_reaches_the_language_model(tmp_path: Path) -> None:
    wrapped = {"model_type": "kimi_k25", "text_config": small("deepseek_v3", model_type="kimi_k2")}
    (tmp_path / "config.json").write_text(json.dumps(wrapped))
    assert resolve_model({"same_as": ".", "num_hidden_layers": 2}, tmp_path).model.layers == 2
    assert resolve_model({"same_as": ".", "weights": "fp8-block"}, tmp_path).model.weights == "fp8-block"


def test_formats_may_lie_beside_the_config(tmp_path: Path) -> None:
    said = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head", "*self_attn*"]}
    (tmp_path / "config.json").write_text(json.dumps(small("deepseek_v3")))
    (tmp_path / "hf_quant_config.json").write_text(json.dumps({"producer": {}, "quantization": said}))
    model = resolve_model(".", tmp_path).model
    assert (model.weights, model.weight_exceptions, model.kv_cache) == ("nvfp4", (("attention", "bf16"),), "fp8")


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (small("mixtral", num_experts_per_tok=9), "model.num_experts_per_tok is 9"),
        (small("mixtral", num_experts_per_tok=None), "model.num_experts_per_tok is missing"),
        (small("deepseek_v3", kv_lora_rank=None), "model.kv_lora_rank is missing"),
        (small("deepseek_v3", kv_lora_rank="x"), "model.kv_lora_rank is 'x'"),
        (small("gpt_oss", layer_types=PAIRS[:3]), "model.layer_types has 3 entries"),
        (small("gpt_oss", layer_types=["unheard"] * 4), "; allowed: a list of full_attention, attention, sliding_"),
        (small("qwen3", layer_types=["linear_attention"] * 4), "linear_attention, which this model_type does not have"),
        (small("qwen3", kv_lora_rank=8), "model.kv_lora_rank is 8: multi-head latent attention, which this model_type"),
        (small("nemotron_h", hybrid_override_pattern="M*-X"), "model.single_blocks is"),
        (small("qwen3_next", linear_num_key_heads=3), "linear_num_key_heads is 3"),
        (
            small("gemma2", num_kv_shared_layers=2),
            "layers that share keys and values, which this model_type does not have",
        ),
        (small("qwen3", weights="fp7"), "model.weights is 'fp7'; allowed: bf16, fp16,"),
        (
            small("deepseek_v3", model_type="deepseek_v5", v_head_dim=None),
            "model.v_head_dim is missing",
        ),
    ],
)
def test_refusals(config: dict[str, Any], sentence: str) -> None:
    assert sentence in problems(config)
    assert len(problems(config).splitlines()) == 1


OWN = PLAIN | {
    "model_type": "transformer",
    "norm": "rmsnorm",
    "hidden_act": "swiglu",
    "positions": "rotary",
    "max_position_embeddings": 64,
}


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({"layer_kinds": [{"mixer": "latent", "count": 4}]}, "model.latent is missing"),
        ({"layer_kinds": [{"mlp": "experts", "count": 4}]}, "model.experts is missing"),
        ({"layer_kinds": [{"mixer": "latant", "count": 4}]}, "model.layer_kinds.0.mixer is 'latant'; allowed: attenti"),
        ({"layer_kinds": [{"count": 3}]}, "model.layer_kinds counts 3 layers"),
        ({"layer_kinds": {"count": 4}}, "; allowed: a list of mappings with mixer, mlp and count"),
        ({"experts": {"count": 4, "width": 8}}, "model.experts.per_token is missing"),
        ({"experts": {"count": 4, "width": 8, "per_token": 5}}, "model.experts.per_token is 5"),
        ({"weight_exceptions": {"atention": "bf16"}}, "model.weight_exceptions.atention"),
    ],
)
def test_refusals_of_blocks_stated_outright(stated: dict[str, Any], sentence: str) -> None:
    assert sentence in problems(OWN | stated)


def test_hybrids_need_the_figures_of_their_blocks() -> None:
    lone = {k: v for k, v in small("nemotron_h").items() if k not in MAMBA}
    assert "model.state_space is missing" in problems(lone)


@pytest.mark.parametrize("group", ["x", 3, 0.5])
def test_pruned_layers_need_whole_groups_of_heads(group: object) -> None:
    block = {"attention": {"n_heads_in_group": group}, "ffn": {"ffn_mult": 1.0}}
    found = problems(PLAIN | {"model_type": "nemotron-nas", "block_configs": [block] * 4})
    assert "model.block_configs[0].attention.n_heads_in_group is" in found


def test_training_goes_on_for_every_kind_of_layer() -> None:
    workload = {"task": "finetune", "sequence_length": 128, "global_batch": 8}
    for name in (
        "qwen3-8b",
        "mistral-7b",
        "qwen2.5-7b",
        "mixtral-8x7b",
        "deepseek-v3.2",
        "qwen3.5-27b",
        "llama-3.3-nemotron-super-49b-v1",
    ):
        scenario = scenario_from_mapping({"model": name, "cluster": "8x h100-sxm-80gb", "workload": workload})
        assert scenario.model.name == name


@pytest.mark.parametrize("model_type", families())
def test_a_family_states_known_features_and_keys(model_type):
    family, spelled = family_of(model_type), spellings()
    assert family.features <= {feature["is"] for feature in spelled.features.values()}
    assert family.activations
    assert set(family.activations) <= set(spelled.activations.values())
    texts = [text for name in families() for text in family_of(name).sizes.values()]  # type: ignore[union-attr]
    sizes = re.findall(r"[a-z_]+", " ".join(texts))
    known = {"block_types", *spelled.derived, *MODEL, *family.switches, *sizes}
    assert [key for key in family.defaults if key not in known] == []
    assert family.sizes.keys() <= {*MODEL, *sizes, *(field.name for field in dataclasses.fields(Model))}
    assert [key for key in family.needs if key not in MODEL or key not in spelled.needed] == []


BERT = {"hidden_act": "gelu", "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2}
PUBLISHED = {
    "bert-base-uncased": (
        {**BERT, "model_type": "bert", "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12}
        | {"num_hidden_layers": 12, "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1},
        "gelu learned",
        109_514_298,
    ),
    "roberta-large": (
        {**BERT, "model_type": "roberta", "hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16}
        | {"num_hidden_layers": 24, "vocab_size": 50265, "max_position_embeddings": 514},
        "gelu learned",
        355_412_057,
    ),
    "distilbert-base-uncased": (
        {"model_type": "distilbert", "activation": "gelu", "dim": 768, "hidden_dim": 3072, "n_heads": 12}
        | {"n_layers": 6, "vocab_size": 30522, "max_position_embeddings": 512},
        "gelu learned",
        66_985_530,
    ),
    "gpt2-xl": (
        {"model_type": "gpt2", "activation_function": "gelu_new", "n_embd": 1600, "n_layer": 48, "n_head": 25}
        | {"n_positions": 1024, "vocab_size": 50257},
        "gelu learned",
        1557.6e6,
    ),
    "opt-1.3b": (
        {"model_type": "opt", "activation_function": "relu", "hidden_size": 2048, "ffn_dim": 8192, "vocab_size": 50272}
        | {"num_attention_heads": 32, "num_hidden_layers": 24, "word_embed_proj_dim": 2048},
        "relu learned",
        1315.8e6,
    ),
    "bloom-7b1": (
        {"model_type": "bloom", "hidden_size": 4096, "n_head": 32, "n_layer": 30, "vocab_size": 250880},
        "gelu alibi",
        7069.0e6,
    ),
    "gpt-neox-20b": (
        {"model_type": "gpt_neox", "hidden_act": "gelu_fast", "hidden_size": 6144, "intermediate_size": 24576}
        | {"num_attention_heads": 64, "num_hidden_layers": 44, "vocab_size": 50432, "max_position_embeddings": 2048},
        "gelu rotary",
        20554.6e6,
    ),
    "gpt-neo-1.3b": (
        {"model_type": "gpt_neo", "activation_function": "gelu_new", "hidden_size": 2048, "num_layers": 24}
        | {"num_heads": 16, "max_position_embeddings": 2048, "vocab_size": 50257, "window_size": 256},
        "gelu learned",
        1315.6e6,
    ),
    "falcon-7b": (
        {"model_type": "falcon", "hidden_size": 4544, "num_attention_heads": 71, "num_hidden_layers": 32}
        | {"vocab_size": 65024, "multi_query": True, "parallel_attn": True, "bias": False},
        "gelu rotary",
        6921.7e6,
    ),
    "persimmon-8b": (
        {"model_type": "persimmon", "hidden_act": "relu2", "hidden_size": 4096, "intermediate_size": 16384}
        | {"num_attention_heads": 64, "num_hidden_layers": 36, "vocab_size": 262144},
        "relu2 rotary",
        9.4e9,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_plain_mlps_have_the_published_parameters(name: str) -> None:
    config, kind, parameters = PUBLISHED[name]
    model = read_model(config, name=name).model
    assert f"{model.activation} {model.positions}" == kind
    # A pooler is not part of the model that is trained here.
    assert model.parameters == pytest.approx(parameters, rel=0.001)


def test_encoders_say_what_is_predicted_in_their_place() -> None:
    (remark,) = read_model(PUBLISHED["roberta-large"][0]).remarks
    assert "causal attention" in remark


def test_an_embedding_of_another_width_is_projected() -> None:
    config = {**PUBLISHED["bert-base-uncased"][0], "model_type": "electra", "embedding_size": 128}
    narrow, wide = (read_model(stated).model for stated in (config, {**config, "embedding_size": 768}))
    assert (narrow.table_width, narrow.logits_width, wide.embedding_width) == (128, 128, 768)
    assert wide.parameters - narrow.parameters == pytest.approx((30522 + 512) * 640 + 768 * 640 - 768 * 128, rel=0.001)


HYBRID = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2}
HYBRID |= {"intermediate_size": 96, "vocab_size": 100, "rms_norm_eps": 1e-6}
BAMBA = {"model_type": "bamba", "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_d_conv": 4}
BAMBA |= {"mamba_n_groups": 1}
LAYERS = {
    "numbers": ({**BAMBA, "attn_layer_indices": [1, 3]}, "state-space attention state-space attention"),
    "a period": (
        {**BAMBA, "attn_layer_period": 4, "attn_layer_offset": 2},
        "state-space state-space attention state-space",
    ),
    "words": (
        {**BAMBA, "layers_block_type": ["mamba", "attention", "mamba", "mamba"]},
        "state-space attention state-space state-space",
    ),
    "codes": (
        {
            "model_type": "minimax_text_01",
            "num_local_experts": 8,
            "num_experts_per_tok": 2,
            "attn_type_list": [0, 1, 0, 0],
        },
        "linear attention linear linear",
    ),
    "a pattern that repeats": (
        {
            "model_type": "recurrent_gemma",
            "block_types": ["recurrent", "attention"],
            "lru_width": 64,
            "conv1d_width": 4,
        },
        "convolution sliding convolution sliding",
    ),
}


@pytest.mark.parametrize("spelling", LAYERS)
def test_layers_are_read_from_every_spelling_of_their_list(spelling: str) -> None:
    config, mixers = LAYERS[spelling]
    kinds = read_model(HYBRID | config).model.kinds
    assert sorted(kind.mixer for kind in kinds for _ in range(kind.count)) == sorted(mixers.split())


def test_a_null_window_of_the_language_model_is_none() -> None:
    language = {**HYBRID, "model_type": "mistral", "sliding_window": None, "max_position_embeddings": 131072}
    model = read_model({"model_type": "mistral3", "text_config": language}).model
    assert ([kind.mixer for kind in model.kinds], model.window) == (["attention"], None)


def test_a_model_may_stand_in_two_wrappers() -> None:
    language = {**HYBRID, "model_type": "qwen2", "tie_word_embeddings": False}
    wrapped = {"model_type": "qwen2_5_omni", "thinker_config": {"model_type": "thinker", "text_config": language}}
    other = {"model_type": "newvl", "my_language_model": language, "vision_config": {"hidden_size": 7}}
    for config in (wrapped, other):
        assert read_model(config).model.parameters == read_model(language).model.parameters


def test_experts_of_a_latent_width_read_and_write_it() -> None:
    config = {
        **HYBRID,
        "model_type": "qwen3_moe",
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
    }
    wide, narrow = (read_model(config | more).model for more in ({}, {"routed_expert_hidden_size": 16}))
    assert wide.parameters - narrow.parameters == 4 * (8 * 3 * 32 * (64 - 16) - 2 * 64 * 16)


def test_an_ungated_activation_has_one_projection() -> None:
    model = read_model({**HYBRID, "model_type": "apertus", "hidden_act": "xielu"}).model
    assert (model.gated, model.mlp_parameters_of(model.kinds[0])) == (False, 2 * 64 * 96)


@pytest.mark.parametrize("value", [3, True, 0.5, "word", [1], {"a": 1}])
def test_a_key_that_nobody_reads_is_named_for_a_known_family_too(value: Any) -> None:
    plain = {**HYBRID, "model_type": "qwen2"}
    assert read_model(plain).model.assumed == ()
    assert read_model({**plain, "lanes": value, "ropes": None}).model.assumed == ("ignored keys: lanes",)
