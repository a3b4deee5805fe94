"""Configs of names, words and lists that nobody knows are read as far as their shapes go, and say what was assumed."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from sightline.errors import InputError
from sightline.loading import scenario_from_mapping, to_mapping
from sightline.loading.models import resolve_model
from sightline.loading.models.config import read_model
from sightline.scenario import Model

CONFIGS = Path(os.environ.get("SIGHTLINE_DATA") or Path(__file__).parents[3] / "shared" / "data") / "model_configs"

PLAIN: dict[str, Any] = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
}
MOE: dict[str, Any] = {"num_experts": 64, "num_experts_per_tok": 6, "moe_intermediate_size": 1408}
LATENT: dict[str, Any] = {
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}
LING_LITE = {
    **PLAIN,
    "model_type": "bailing_moe",
    "hidden_size": 2048,
    "intermediate_size": 1408,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 126464,
    **MOE,
    "num_shared_experts": 2,
    "first_k_dense_replace": 0,
    "norm_head": False,
    "tie_word_embeddings": False,
}
OPENELM = {
    "model_type": "openelm",
    "activation_fn_name": "swish",
    "ffn_dim_divisor": 256,
    "ffn_multipliers": [
        *(0.5, 0.63, 0.76, 0.89, 1.02, 1.15, 1.28, 1.41, 1.54, 1.67, 1.8, 1.93, 2.06, 2.19),
        *(2.31, 2.44, 2.57, 2.7, 2.83, 2.96, 3.09, 3.22, 3.35, 3.48, 3.61, 3.74, 3.87, 4.0),
    ],
    "head_dim": 64,
    "max_context_length": 2048,
    "model_dim": 2048,
    "normalize_qk_projections": True,
    "num_kv_heads": [4] * 3 + [5] * 7 + [6] * 8 + [7] * 6 + [8] * 4,
    "num_query_heads": [16] * 3 + [20] * 7 + [24] * 8 + [28] * 6 + [32] * 4,
    "num_transformer_layers": 28,
    "share_input_output_layers": True,
    "vocab_size": 32000,
}
EXAONE = {
    **PLAIN,
    "model_type": "exaone4",
    "hidden_size": 2048,
    "intermediate_size": 4096,
    "num_hidden_layers": 30,
    "vocab_size": 102400,
    "max_position_embeddings": 65536,
    "sliding_window": 4096,
    "sliding_window_pattern": "LLLG",
    "tie_word_embeddings": True,
}
ERNIE = {
    **PLAIN,
    "model_type": "ernie4_5_moe",
    "hidden_size": 2560,
    "intermediate_size": 12288,
    "moe_intermediate_size": 1536,
    "num_hidden_layers": 28,
    "num_attention_heads": 20,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "moe_num_experts": 64,
    "moe_num_shared_experts": 2,
    "moe_k": 6,
    "moe_layer_start_index": 1,
    "moe_layer_interval": 1,
    "vocab_size": 103424,
    "tie_word_embeddings": True,
}


def read(config: dict[str, Any], tmp_path: Path | None = None) -> Model:
    """A config as a scenario states it, or as a file where there is a folder for it."""
    if tmp_path is None:
        return resolve_model(config, Path()).model
    (tmp_path / "config.json").write_text(json.dumps(config))
    return resolve_model(".", tmp_path).model


def without(config: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in keys}


@pytest.mark.parametrize(
    ("model_type", "config", "known"),
    [
        ("llama5", {}, "llama"),
        ("qwen4", {}, "qwen3"),
        ("qwen4_moe", MOE, "qwen3_moe"),
        ("glm5_moe", {**MOE, "n_routed_experts": 64}, "glm4_moe"),
        ("deepseek_v5", {**MOE, **LATENT}, "deepseek_v3"),
    ],
)
def test_a_newer_version_of_a_known_name_is_read_as_the_newest_that_fits(model_type, config, known):
    newer = read({**PLAIN, **config, "model_type": model_type})
    older = read({**PLAIN, **config, "model_type": known})
    assert newer.assumed == (f"model_type '{model_type}' is unknown; it is read as {known}",)
    assert older.assumed == ()
    assert (newer.parameters, newer.kinds, newer.qk_norm) == (older.parameters, older.kinds, older.qk_norm)


@pytest.mark.parametrize(
    ("config", "total", "active"),
    [(LING_LITE, 16.8e9, 2.75e9), (OPENELM, 1.08e9, 1.08e9), (EXAONE, 1.28e9, 1.28e9), (ERNIE, 21.8e9, 3.35e9)],
    ids=["ling-lite-1.5", "openelm-1.1b", "exaone-4.0-1.2b", "ernie-4.5-21b-a3b"],
)
def test_published_configs_of_unknown_names_have_their_published_size(config, total, active, tmp_path):
    model = read({**config, "model_type": "newthing"}, tmp_path)
    assert model.parameters == pytest.approx(total, rel=0.01)
    assert model.active_parameters == pytest.approx(active, rel=0.01)
    assert "is read by what its config states" in model.assumed[0]


def test_layers_may_be_counted_by_a_list():
    model = read(without({**PLAIN, "model_type": "qwen3", "layer_types": ["full_attention"] * 20}, "num_hidden_layers"))
    assert model.layers == 20
    assert model.assumed == ("num_hidden_layers is not stated; layer_types has 20 entries",)
    alternating = {**PLAIN, "model_type": "gpt_oss", **MOE, "layer_types": ["full_attention", "windowed_rows"] * 16}
    assert [(kind.mixer, kind.count) for kind in read(alternating).kinds] == [("attention", 16), ("sliding", 16)]


def test_layers_may_have_widths_of_their_own():
    kinds = read(OPENELM).kinds
    assert sum(kind.count for kind in kinds) == 28
    shapes = [(k.attention.heads, k.attention.kv_heads) if k.attention else (32, 8) for k in kinds]
    assert (shapes[0], shapes[5], shapes[-1]) == ((16, 4), (20, 5), (32, 8))
    assert (kinds[0].intermediate_size, kinds[-1].intermediate_size) == (1024, 8192)
    equal = read({**PLAIN, "model_type": "llama", "num_key_value_heads": [8] * 32})
    assert equal.kv_heads == 8
    assert equal.layer_kinds == ()


def test_of_two_spellings_the_usual_one_counts(tmp_path):
    twice = {**PLAIN, "model_type": "mixtral", "num_local_experts": 8, "num_experts": 16, "num_experts_per_tok": 2}
    model = read(twice, tmp_path)
    assert model.experts is not None
    assert model.experts.count == 16
    assert model.assumed == (
        "num_experts is 16 but num_local_experts, another spelling of it, is 8; num_experts counts",
    )
    # What a person writes over a file counts in any spelling; two numbers by hand are a mistake.
    changed = resolve_model({"same_as": ".", "num_local_experts": 4}, tmp_path).model
    assert changed.experts is not None
    assert changed.experts.count == 4
    with pytest.raises(InputError, match="another spelling of it, is 16; give one"):
        read(twice)


@pytest.mark.parametrize(
    ("model_type", "word", "activation"),
    [
        ("llama", "gelu", "geglu"),
        ("llama", "gelu_10", "geglu"),
        ("llama", "xielu", "reglu2"),
        ("llama", "fused_swiglu", "swiglu"),
        ("gpt2", "squared_relu", "relu2"),
        ("gpt2", "quick_gelu", "gelu"),
        ("gpt2", "silu", "gelu"),
        ("gpt2", "mish", "gelu"),
    ],
)
def test_an_unknown_activation_is_read_as_one_of_as_many_projections(model_type, word, activation):
    model = read({**PLAIN, "model_type": model_type, "hidden_act": word})
    assert model.activation == activation
    assert [word in sentence for sentence in model.assumed] == [True]


def test_an_unknown_family_gates_where_its_norm_suggests_so():
    gated = read({**PLAIN, "model_type": "newthing", "hidden_act": "gelu_pytorch_tanh"})
    plain = read(
        {**without(PLAIN, "rms_norm_eps"), "model_type": "newthing", "hidden_act": "gelu", "layer_norm_eps": 1e-5}
    )
    assert (gated.norm, gated.activation, gated.tied_embeddings) == ("rmsnorm", "geglu", True)
    assert (plain.norm, plain.activation) == ("layernorm", "gelu")


def test_an_unknown_family_has_a_plain_mlp_where_its_width_suggests_so():
    bare = {**without(PLAIN, "rms_norm_eps", "norm_eps"), "model_type": "newthing", "hidden_act": "gelu"}
    plain = read({**bare, "intermediate_size": 4 * bare["hidden_size"]})
    assert (plain.norm, plain.activation) == ("layernorm", "gelu")
    silu = read({**bare, "intermediate_size": 4 * bare["hidden_size"], "hidden_act": "silu"})
    assert (silu.norm, silu.activation) == ("rmsnorm", "swiglu")


def test_a_class_may_stand_in_for_the_family():
    config = without({**PLAIN, **MOE, "architectures": ["Qwen3MoeForCausalLM"]}, "model_type")
    model = read(config)
    assert model.qk_norm
    assert model.assumed == ("the config states no model_type; its class is read as qwen3_moe",)


def test_keys_that_nobody_reads_are_named():
    model = read({**PLAIN, "model_type": "newthing", "num_lanes": 4, "some_flag": True, "bos_token_id": 1})
    assert "num_lanes" in model.assumed[1]


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (without({**PLAIN, "model_type": "newthing"}, "vocab_size"), "model.vocab_size is missing"),
        (without({**PLAIN, "model_type": "newthing"}, "intermediate_size"), "model.intermediate_size is missing"),
        (
            {**PLAIN, "model_type": "newthing", "num_experts": 8},
            "model.num_experts_per_tok is missing",
        ),
        (
            {**PLAIN, "model_type": "zamba2", "mamba_d_state": 16},
            "a model whose layers share an attention block, which is not predicted",
        ),
        ({**PLAIN, "model_type": "newthing", "mask_token_id": 7}, "a diffusion language model"),
        ({**PLAIN, "model_type": "Dream"}, "a diffusion language model, which is not predicted"),
        (
            {**PLAIN, "model_type": "newthing", "mamba_d_state": 16},
            "layer_types is missing; needed with ssm_state_size",
        ),
        (
            {**PLAIN, "model_type": "newthing", "is_encoder_decoder": True},
            "an encoder-decoder, which is not predicted",
        ),
    ],
)
def test_only_what_lacks_a_shape_or_has_foreign_blocks_is_refused(config, sentence):
    with pytest.raises(InputError) as caught:
        read(config)
    (problem,) = caught.value.problems
    assert sentence in problem


def test_what_was_assumed_is_warned_about_and_kept():
    asked = {
        "model": {**PLAIN, "model_type": "llama5"},
        "cluster": "8x h100-sxm-80gb",
        "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 8},
        "plan": {"framework": "megatron", "micro_batch": 1},
    }
    scenario = scenario_from_mapping(asked)
    assert any("'llama5' is unknown" in warning for warning in scenario.warnings)
    again = scenario_from_mapping(to_mapping(scenario))
    assert again.model.assumed == scenario.model.assumed != ()


def renamed(config: dict[str, Any], model_type: str) -> dict[str, Any]:
    """A published config under another name, its class left out."""
    changed = {**without(config, "architectures"), "model_type": model_type}
    for wrapped in ("text_config", "llm_config", "language_config"):
        if isinstance(config.get(wrapped), dict):
            changed[wrapped] = {**without(config[wrapped], "architectures"), "model_type": model_type}
    return changed


@pytest.mark.skipif(not CONFIGS.is_dir(), reason="needs the published configs")
def test_published_configs_mean_the_same_under_names_that_nobody_knows():
    shares = []
    for path in sorted(CONFIGS.glob("*.json")):
        config = json.loads(path.read_text(encoding="utf-8"))
        known = read_model(config).model
        name = config.get("text_config", {}).get("model_type", config["model_type"])
        newer = read_model(renamed(config, re.sub(r"\d+(?!.*\d)", "9", name))).model
        assert newer.kinds == known.kinds
        assert newer.parameters == pytest.approx(known.parameters, rel=1e-4)
        shares.append(read_model(renamed(config, "a-name-of-no-family")).model.parameters / known.parameters)
    # Llama 4's shared expert is its family's default, and Gemma 4's class holds what its config leaves out.
    assert sum(abs(share - 1.0) < 0.001 for share in shares) >= len(shares) - 4
    assert min(shares) > 0.9
    assert max(shares) < 1.1


def test_widths_of_fewer_layers_than_there_are_is_a_remark():
    model = read({**PLAIN, "model_type": "llama", "intermediate_size": [512, 256]})
    assert any("list 2 layers, num_hidden_layers is 32" in sentence for sentence in model.assumed)
