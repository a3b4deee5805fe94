import json
import os
from pathlib import Path
from typing import Any

import pytest

from sightline import catalog
from sightline.errors import InputError
from sightline.loading.models import resolve_model
from sightline.scenario import Model

CONFIGS = Path(os.environ.get("SIGHTLINE_DATA") or Path(__file__).parents[3] / "shared" / "data") / "model_configs"
LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}
GENERIC = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 100}
OWN_SPELLINGS: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 8, "vocab_size": 100, "n_positions": 32, "n_inner": 96},
    "opt": GENERIC | {"ffn_dim": 96, "max_position_embeddings": 32, "word_embed_proj_dim": 64},
    "bloom": {"n_embed": 64, "n_layer": 2, "n_head": 8, "vocab_size": 100, "n_inner": None},
    "mpt": {
        "d_model": 64,
        "n_layers": 2,
        "n_heads": 8,
        "vocab_size": 100,
        "max_seq_len": 32,
        "attn_config": {"alibi": True},
    },
    "gpt_neox": GENERIC | {"intermediate_size": 96, "use_parallel_residual": False},
    "llama": LLAMA,
    "mistral": LLAMA | {"sliding_window": None, "head_dim": 16},
    "qwen2": LLAMA | {"use_sliding_window": False, "sliding_window": 4096, "layer_types": ["full_attention"] * 2},
}


def read(config: Any, folder: Path = Path()) -> Model:
    return resolve_model(config, folder).model


def problems(config: Any, folder: Path = Path()) -> str:
    with pytest.raises(InputError) as caught:
        resolve_model(config, folder)
    return str(caught.value)


@pytest.mark.parametrize("name", catalog.names("models"))
def test_every_model_of_the_catalog_has_about_its_published_size(name: str) -> None:
    # Many papers round their counts to two digits.
    published = catalog.entry("models", name)["parameters"]
    assert read(name).parameters == pytest.approx(published, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("family", OWN_SPELLINGS)
def test_parameters_equal_those_of_the_real_model_class(family: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    stated = {k: v for k, v in OWN_SPELLINGS[family].items() if k not in {"model_type", "n_embed"}}
    if family == "bloom":
        stated["hidden_size"] = 64
    config = transformers.AutoConfig.for_model(family, **stated)
    with torch.device("meta"):
        real = transformers.AutoModelForCausalLM.from_config(config)
    assert read(OWN_SPELLINGS[family] | {"model_type": family}).parameters == sum(p.numel() for p in real.parameters())


def test_gpt2_in_its_own_and_in_generic_keys_is_the_same() -> None:
    generic = GENERIC | {"model_type": "gpt2", "max_position_embeddings": 32, "intermediate_size": 96, "name": "x"}
    assert read({"model_type": "gpt2", "name": "x"} | OWN_SPELLINGS["gpt2"]) == read(generic)


def test_gpt2_defaults_are_those_of_transformers() -> None:
    model = read({"model_type": "gpt2"} | GENERIC)
    assert (model.intermediate_size, model.max_positions, model.tied_embeddings) == (256, 1024, True)
    assert (model.norm, model.activation, model.positions, model.dropout) == ("layernorm", "gelu", "learned", 0.1)
    assert model.attention_bias
    assert model.output_bias
    assert model.mlp_bias
    assert model.norm_bias


def test_llama_defaults() -> None:
    model = read({k: v for k, v in LLAMA.items() if k != "num_key_value_heads"})
    assert (model.kv_heads, model.head_dim, model.max_positions) == (8, 8, 2048)
    assert (model.norm, model.activation, model.positions) == ("rmsnorm", "swiglu", "rotary")
    assert (model.tied_embeddings, model.attention_bias, model.norm_bias, model.dropout) == (False, False, False, 0.0)


def test_what_sets_each_family_apart() -> None:
    assert read({"model_type": "opt"} | OWN_SPELLINGS["opt"]).position_offset == 2
    assert read({"model_type": "opt"} | OWN_SPELLINGS["opt"]).activation == "relu"
    bloom = read({"model_type": "bloom"} | OWN_SPELLINGS["bloom"])
    assert (bloom.embedding_norm, bloom.positions, bloom.intermediate_size) == (True, "alibi", 256)
    qwen = read(LLAMA | {"model_type": "qwen2"})
    assert (qwen.attention_bias, qwen.output_bias) == (True, False)
    biased = read(LLAMA | {"attention_bias": True})
    assert (biased.attention_bias, biased.output_bias, biased.mlp_bias) == (True, True, False)


def test_mpt_switches() -> None:
    base = {"model_type": "mpt"} | OWN_SPELLINGS["mpt"]
    assert read(base).positions == "alibi"
    assert not read(base).norm_bias
    assert read(base | {"attn_config": {"alibi": False}}).positions == "learned"
    assert read(base | {"no_bias": False}).mlp_bias
    assert read(base | {"no_bias": False}).norm_bias
    assert read(base | {"expansion_ratio": 2}).intermediate_size == 128
    assert read(base | {"attn_config": {"attn_type": "multiquery_attention"}}).kv_heads == 1
    assert read(base | {"attn_config": {"attn_type": "grouped_query_attention", "kv_n_heads": 2}}).kv_heads == 2


def test_multi_query_means_one_kv_head() -> None:
    assert read({"model_type": "gpt2", "multi_query": True} | GENERIC).kv_heads == 1


@pytest.mark.parametrize(
    ("stated", "dropout"),
    [
        ({"attn_pdrop": 0.0, "resid_pdrop": 0.2, "embd_pdrop": 0.1}, 0.2),
        ({"resid_pdrop": 0.0, "attn_pdrop": 0, "embd_pdrop": 0.0}, 0.0),
        ({"dropout": 0.3, "attn_pdrop": 0.1}, 0.3),
        ({"hidden_dropout": 0.25}, 0.25),
        ({}, 0.1),
    ],
)
def test_dropout(stated: dict[str, float], dropout: float) -> None:
    assert read({"model_type": "gpt2"} | GENERIC | stated).dropout == dropout


def test_the_window_is_where_a_config_turns_it_on() -> None:
    mistral = LLAMA | {"model_type": "mistral"}
    assert read(mistral).window == 4096
    assert read(mistral | {"sliding_window": 16}).window == 16
    assert read(mistral | {"sliding_window": None}).window is None
    assert read(LLAMA | {"model_type": "qwen2", "sliding_window": 16}).window is None


def test_config_file_and_folder(tmp_path: Path) -> None:
    folder = tmp_path / "my-llama"
    folder.mkdir()
    config = LLAMA | {"_name_or_path": "x", "some_new_key": {"a": 1}, "rope_scaling": None}
    (folder / "config.json").write_text(json.dumps(config))
    (tmp_path / "other.json").write_text(json.dumps(config))
    assert read("my-llama", tmp_path).name == "my-llama"
    assert read("./my-llama/config.json", tmp_path).name == "my-llama"
    assert read(str(tmp_path / "other.json")).name == "other"


def test_changes_over_a_name_and_over_a_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA | {"some_new_key": 1}))
    assert read({"same_as": "llama-2-7b", "num_hidden_layers": 16}).layers == 16
    assert read({"same_as": "llama-2-7b", "num_hidden_layers": 16}).hidden_size == 4096
    assert read({"same_as": ".", "vocab_size": 7}, tmp_path).vocab_size == 7
    assert "model.some_new_ky is not a known key" in problems({"same_as": ".", "some_new_ky": 7}, tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model_type": None}, "model.model_type is missing; known: llama,"),
        ({"model_type": ["llama"]}, "model.model_type is ['llama']; known: llama,"),
        ({"hidden_size": None}, "model.hidden_size is missing"),
        ({"intermediate_size": None}, "model.intermediate_size is missing"),
        ({"hidden_size": "64"}, "model.hidden_size is '64'"),
        ({"num_hidden_layers": 0}, "model.num_hidden_layers is 0"),
        ({"num_hidden_layer": 2}, "model.num_hidden_layer is not a known key - did you mean 'num_hidden_layers'?"),
        ({"num_key_value_heads": 3}, "model.num_key_value_heads is 3"),
        ({"num_attention_heads": 24}, "model.hidden_size is 64"),
        ({"n_embd": 65}, "model.n_embd is 65 but model.hidden_size, another spelling of it, is 64"),
        ({"dropout": 1}, "model.dropout is 1"),
        ({"attn_pdrop": "x"}, "model.attn_pdrop is 'x'"),
        (
            {"num_local_experts": 8},
            "model.num_local_experts is 8: a mixture of experts, which this model_type does not have",
        ),
        ({"kv_lora_rank": 512}, "model.kv_lora_rank is 512: multi-head latent attention"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "model.layer_types is"),
    ],
)
def test_refusals(change: dict[str, Any], sentence: str) -> None:
    assert sentence in problems(LLAMA | change)


def test_gpt_neox_runs_attention_and_mlp_in_parallel_unless_told_otherwise() -> None:
    assert read({"model_type": "gpt_neox"} | GENERIC).parallel_block
    assert not read({"model_type": "gpt_neox", "use_parallel_residual": False} | GENERIC).parallel_block


def test_all_mistakes_at_once() -> None:
    found = problems(LLAMA | {"hidden_size": "x", "vocab_size": -1, "hidden_sise": 3, "num_experts": 4}).splitlines()
    assert len(found) == 4


@pytest.mark.parametrize(
    "name", ["LLAMA-2-7B", "Llama 2 7B", "llama2-7b", "meta-llama/Llama-2-7b", "meta-llama/Llama-2-7b-hf"]
)
def test_case_spaces_and_vendors_of_names_do_not_count(name: str, tmp_path: Path) -> None:
    assert resolve_model(name, tmp_path).model.name == "llama-2-7b"
    assert resolve_model("meta-llama/Meta-Llama-3-8B", tmp_path).model.name == "llama-3-8b"


def test_a_folder_of_that_name_comes_before_the_catalog(tmp_path: Path) -> None:
    folder = tmp_path / "LLAMA-2-7B"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(dict(catalog.entry("models", "llama-2-13b"))))
    assert resolve_model("LLAMA-2-7B", tmp_path).model.hidden_size == 5120


@pytest.mark.parametrize("name", ["llama-2-7c", "meta-llama/Llama-2-7bb-hf"])
def test_unknown_names_get_the_nearest(name: str) -> None:
    assert "did you mean 'llama-2-7b'?" in problems(name)


@pytest.mark.parametrize(
    ("name", "newest"),
    [("llama-8b", "llama-3.1-8b"), ("meta-llama/Llama8B", "llama-3.1-8b"), ("qwen-32b", "qwen3-32b")],
)
def test_a_name_without_its_version_gets_the_newest(name, newest):
    assert f"did you mean '{newest}'?" in problems(name)


def test_a_config_may_hold_infinities_in_keys_nobody_reads(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(LLAMA | {"time_step_limit": [0.0, float("inf")]}))
    (tmp_path / "b.json").write_text(json.dumps(LLAMA | {"hidden_size": float("inf")}))
    assert read("a.json", tmp_path).hidden_size == 64
    assert "model.hidden_size is inf" in problems("b.json", tmp_path)


def test_bad_config_files(tmp_path: Path) -> None:
    bad = {
        "empty": "",
        "list": "[1]",
        "cut": '{"model_type": ',
        "binary": "\x00\x01",
        "twice": '{"a": 1, "a": 2}',
    }
    for name, text in bad.items():
        (tmp_path / f"{name}.json").write_text(text)
        assert f"{name}.json" in problems(f"{name}.json", tmp_path)
    (tmp_path / "bare").mkdir()
    assert "model is 'bare'" in problems("bare", tmp_path)


def test_heads_of_a_layer_kind_are_a_mapping() -> None:
    kinds = [{"count": 2, "attention": "{'heads': 8}"}]
    generic = {"norm": "rmsnorm", "hidden_act": "swiglu", "positions": "rotary", "max_position_embeddings": 4096}
    said = problems({**LLAMA, **generic, "model_type": "transformer", "num_hidden_layers": 2, "layer_kinds": kinds})
    assert "model.layer_kinds.0.attention is \"{'heads': 8}\"" in said


@pytest.mark.parametrize(
    ("stated", "missing"),
    [
        ({"index_topk": 8, "index_n_heads": 4}, "index_head_dim is missing"),
        ({"kv_lora_rank": 8}, "qk_nope_head_dim is missing"),
        ({"linear_num_value_heads": 8}, "linear_num_key_heads is missing"),
        ({"num_experts": 8}, "num_experts_per_tok is missing"),
        ({"compress_ratios": [4, 4]}, "o_groups is missing"),
    ],
)
def test_half_described_blocks_of_an_unknown_family_are_named(stated: dict[str, Any], missing: str) -> None:
    config = {"model_type": "of_tomorrow", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    with pytest.raises(InputError) as raised:
        resolve_model({**config, "intermediate_size": 128, "vocab_size": 100, **stated}, Path())
    assert missing in str(raised.value)
