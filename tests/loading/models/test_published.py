"""Published configs: parameters in all and of a token, and bytes that a sequence caches, at two lengths."""

import json
from pathlib import Path
from typing import Any

import pytest

from sightline.errors import InputError
from sightline.loading.models import read_model, resolve_model
from sightline.program.blocks.layer import mixer_of

SHORT, LONG = 1024, 32768
MOE = {"norm_topk_prob": True, "tie_word_embeddings": False, "hidden_act": "silu", "rms_norm_eps": 1e-6}
LING = {
    **MOE,
    "num_hidden_layers": 20,
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "moe_intermediate_size": 512,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "num_shared_experts": 1,
    "first_k_dense_replace": 1,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 157184,
    "n_group": 8,
    "topk_group": 4,
    "use_qk_norm": True,
    "use_qkv_bias": False,
    "partial_rotary_factor": 0.5,
    "moe_shared_expert_intermediate_size": 512,
    "score_function": "sigmoid",
    "max_position_embeddings": 32768,
}
K3_FULL = [*range(4, 93, 4), 93]
PUBLISHED: dict[str, tuple[dict[str, Any], float, float, float, float]] = {
    "ling-mini-2.0": ({**LING, "model_type": "bailing_moe"}, 16.26e9, 1.43e9, 41.9e6, 1342e6),
    "ring-mini-linear-2.0": (
        {**LING, "model_type": "bailing_moe_linear", "layer_group_size": 5, "group_norm_size": 4, "linear_silu": False},
        *(16.4e9, 1.6e9, 25.2e6, 285e6),
    ),
    "kimi-k3": (
        {
            "model_type": "kimi_k3",
            "text_config": {
                "model_type": "kimi_linear",
                "num_hidden_layers": 93,
                "hidden_size": 7168,
                "vocab_size": 163840,
                "intermediate_size": 33792,
                "moe_intermediate_size": 3072,
                "routed_expert_hidden_size": 3584,
                "num_experts": 896,
                "num_experts_per_token": 16,
                "num_shared_experts": 2,
                "hidden_act": "silu",
                "first_k_dense_replace": 1,
                "kv_lora_rank": 512,
                "q_lora_rank": 1536,
                "qk_nope_head_dim": 128,
                "qk_rope_head_dim": 64,
                "v_head_dim": 128,
                "num_attention_heads": 96,
                "num_key_value_heads": 96,
                "mla_use_output_gate": True,
                "mla_use_nope": True,
                "tie_word_embeddings": False,
                "linear_attn_config": {
                    "full_attn_layers": K3_FULL,
                    "head_dim": 128,
                    "num_heads": 96,
                    "short_conv_kernel_size": 4,
                    "kda_layers": [i + 1 for i in range(93) if i + 1 not in K3_FULL],
                    "use_full_rank_gate": True,
                    "gate_lower_bound": -5.0,
                },
            },
        },
        *(2.78e12, 105e9, 462e6, 1340e6),
    ),
    "step-3.5-flash": (
        {
            "model_type": "step3p5",
            "hidden_size": 4096,
            "intermediate_size": 11264,
            "num_hidden_layers": 45,
            "max_seq_len": 262144,
            "vocab_size": 128896,
            "use_qk_norm": True,
            "use_moe": True,
            "head_dim": 128,
            "moe_layers_enum": ",".join(map(str, range(3, 45))),
            "num_attention_heads": 64,
            "moe_num_experts": 288,
            "num_attention_groups": 8,
            "moe_top_k": 8,
            "moe_intermediate_size": 1280,
            "share_expert_dim": 1280,
            "moe_layer_offset": 0,
            "moe_every_n_layer": 1,
            "use_head_wise_attn_gate": True,
            "sliding_window": 512,
            "layer_types": (["full_attention"] + ["sliding_attention"] * 3) * 12,
            "tie_word_embeddings": False,
            "use_rope_layers": [],
            "partial_rotary_factors": [0.5, 1.0, 1.0, 1.0] * 12,
            "swiglu_limits": [0.0] * 48,
            "attention_other_setting": {
                "attention_type": "sliding_attention",
                "num_attention_heads": 96,
                "num_attention_groups": 8,
                "head_dim": 128,
                "true_head_dim": 128,
            },
        },
        *(196.8e9, 11.9e9, 119.5e6, 1680e6),
    ),
    "hunyuan-a13b": (
        {
            "model_type": "hunyuan_v1_moe",
            "hidden_size": 4096,
            "intermediate_size": 3072,
            "vocab_size": 128167,
            "attention_head_dim": 128,
            "moe_intermediate_size": [3072] * 32,
            "moe_topk": [8] * 32,
            "num_experts": 64,
            "num_shared_expert": [1] * 32,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "use_mla": False,
            "num_key_value_heads": 8,
            "n_group": False,
            "topk_group": False,
            "routed_scaling_factor": False,
            "moe_layer_num_skipped": 0,
            "use_cla": False,
            "cla_share_factor": 2,
            "tie_word_embeddings": True,
            "org_vocab_size": 128167,
            "dense_list": [4096, 0],
            "use_qk_norm": True,
            "kv_lora_rank": None,
        },
        *(80.4e9, 12.75e9, 134e6, 4295e6),
    ),
    "k-exaone-236b": (
        {
            **MOE,
            "model_type": "exaone_moe",
            "hidden_size": 6144,
            "intermediate_size": 18432,
            "num_hidden_layers": 48,
            "is_moe_layer": [False] + [True] * 47,
            "moe_intermediate_size": 2048,
            "num_experts": 128,
            "head_dim": 128,
            "num_experts_per_tok": 8,
            "num_shared_experts": 1,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "sliding_window": 128,
            "sliding_window_pattern": "LLLG",
            "vocab_size": 153600,
        },
        *(236e9, 23.7e9, 69.2e6, 1630e6),
    ),
    "command-r7b": (
        {
            "model_type": "cohere2",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 256000,
            "sliding_window": 4096,
            "layer_switch": 4,
            "order_of_interleaved_layers": "local_attn_first",
            "use_gated_activation": True,
        },
        *(8.03e9, 8.03e9, 134e6, 1476e6),
    ),
    "smallthinker-21b": (
        {
            "model_type": "smallthinker",
            "head_dim": 128,
            "hidden_size": 2560,
            "moe_ffn_hidden_size": 768,
            "moe_num_active_primary_experts": 6,
            "moe_num_primary_experts": 64,
            "num_attention_heads": 28,
            "num_hidden_layers": 52,
            "num_key_value_heads": 4,
            "sliding_window_layout": [0, 1, 1, 1] * 13,
            "rope_layout": [0, 1, 1, 1] * 13,
            "sliding_window_size": 4096,
            "vocab_size": 151936,
            "hidden_act": "silu",
            "max_position_embeddings": 16384,
            "tie_word_embeddings": False,
            "rms_norm_eps": 1e-6,
        },
        *(21.5e9, 3.72e9, 109e6, 1200e6),
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_cache_are_those_published(name: str) -> None:
    config, total, active, *cached = PUBLISHED[name]
    model = read_model(config).model
    assert (model.parameters, model.active_parameters) == pytest.approx((total, active), rel=0.01)
    for tokens, expected in zip((SHORT, LONG), cached, strict=True):
        kept = sum(
            kind.count * float(mixer_of(model, kind).cached_bytes(float(tokens), 2.0, 1.0)) for kind in model.kinds
        )
        assert kept == pytest.approx(expected, rel=0.01)
    assert not any("ignored" in sentence for sentence in model.assumed)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_key_under_another_name_is_named_or_refused(name: str) -> None:
    config = PUBLISHED[name][0]
    text = config.get("text_config", config)
    for key, value in text.items():
        renamed = {k: v for k, v in text.items() if k != key} | {f"zq_{key}": value}
        if value is None:
            continue
        try:
            model = read_model({**config, "text_config": renamed} if text is not config else renamed).model
        except InputError:
            continue
        assert f"zq_{key}" in " ".join(model.assumed)


PARAMS: dict[str, Any] = {"dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32,
    "n_kv_heads": 8, "norm_eps": 1e-5, "vocab_size": 32000}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "total"),
    [({}, 7.24e9), ({"moe": {"num_experts_per_tok": 2, "num_experts": 8, "route_every_n": 1}}, 46.7e9)],
)
def test_a_folder_with_the_params_of_mistral_is_read(more: dict[str, Any], total: float, tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text(json.dumps({**PARAMS, **more}))
    model = resolve_model(".", tmp_path).model
    assert model.parameters == pytest.approx(total, rel=0.01)
    assert (model.name, model.assumed) == (tmp_path.name, ())


PLAIN: dict[str, Any] = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
    "num_attention_heads": 8, "vocab_size": 1000}  # fmt: skip


@pytest.mark.parametrize(
    ("stated", "reason"),
    [
        ({"model_type": "qwen3", "architectures": ["SDARForCausalLM"]}, "SDARForCausalLM': a diffusion language model"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "a model that classifies"),
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "an encoder that fills masks"),
        ({"model_type": "ouro"}, "layers that run again and again"),
        ({"total_ut_steps": 4}, "layers that run again and again"),
        ({"model_type": "hunyuan", "use_cla": True}, "layers that share keys and values"),
        ({"model_type": "newest", "use_mamba": True}, "state-space layers"),
        ({"model_type": "newest", "layer_group_size": 2}, "linear is missing"),
        ({"model_type": "minicpm", "sparse_config": {"topk": 64}}, "attention to chosen blocks of tokens"),
        ({"model_type": "longcat_flash_ngram"}, "a model of n-gram embeddings"),
        ({"model_type": "phi4flash"}, "a model of gated memory units"),
        ({"model_type": "ernie4_5_moe_vl"}, "experts of their own for each modality"),
        ({"model_type": "t5gemma", "is_encoder_decoder": True, "text_config": PLAIN}, "an encoder-decoder"),
    ],
)
def test_what_is_of_another_principle_is_refused_with_that_reason(stated: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError) as caught:
        read_model({**PLAIN, **stated})
    assert [reason in problem for problem in caught.value.problems] == [True]


def test_a_window_may_be_stated_for_each_layer() -> None:
    model = read_model(
        {**PLAIN, "model_type": "mistral", "num_key_value_heads": 8, "sliding_window": [None, 16] * 2}
    ).model
    assert [(kind.mixer, kind.count) for kind in model.kinds] == [("attention", 2), ("sliding", 2)]
    assert model.window == 16


@pytest.mark.parametrize("window", [None, False, 0])
def test_a_window_of_nothing_is_none(window: object) -> None:
    config = {**PLAIN, "model_type": "mistral", "num_key_value_heads": 8, "sliding_window": window}
    assert read_model(config).model.window is None


@pytest.mark.parametrize(
    ("kept", "exceptions"),
    [
        (["model.layers.{}.linear_attn.in_proj_ba", "model.layers.{}.mlp.gate", "lm_head"], {}),
        (["model.layers.{}.self_attn.q_proj"], {"attention": "bf16"}),
        (["model.layers.0.self_attn.q_proj", "model.layers.0.mlp.up_proj"], {}),
    ],
)
def test_a_part_stays_unquantized_where_most_of_its_layers_do(kept: list[str], exceptions: dict[str, str]) -> None:
    names = [name.format(i) for name in kept for i in range(32)] if "{}" in kept[0] else kept
    said = {"quant_method": "fp8", "modules_to_not_convert": names}
    model = read_model({**PLAIN, "num_hidden_layers": 32, "quantization_config": said}).model
    assert dict(model.weight_exceptions) == exceptions
