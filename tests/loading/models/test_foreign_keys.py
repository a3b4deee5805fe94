"""No key of a model's config is dropped in silence: it is read, on a list with its reason, named, or refused."""

import json
from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.errors import InputError
from sightline.loading.models import read_model, resolve_model
from sightline.loading.models.family import MODEL, spellings

LAYERS = 4
KNOWN: dict[str, Any] = {
    "model_type": "qwen3",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
}
NAMED = {"number": 3, "fraction": 0.5, "flag": True, "word": "quux", "list": [1, 2], "fractions": [0.5] * LAYERS,
    "mapping": {"inner": 1, "other": {"innermost": 2}}}  # fmt: skip
BIG = {**KNOWN, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 151936}  # fmt: skip
STRUCTURAL = {
    **dict.fromkeys(("quux_layers", "num_quux_heads", "quux_expert_count", "quuxWindow_window", "quux_quant_bits"), 3),
    "quux_head_dims": [3, 4],
    "quux_of_each": [1, 2, 1, 2],
    "quux_word_of_each": ["a", "b", "a", "b"],
    "quux_group": {"num_layers": 2},
}


def problems(config: dict[str, Any]) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_model(config)
    return caught.value.problems


@pytest.mark.parametrize("kind", NAMED)
def test_a_foreign_key_is_named(kind: str) -> None:
    assert read_model(KNOWN).model.assumed == ()
    assert read_model({**KNOWN, "quux": NAMED[kind], "quuux": None}).model.assumed == ("ignored keys: quux",)


@pytest.mark.parametrize("group", spellings().nested)
def test_a_foreign_key_of_a_group_that_is_read_is_named(group: str) -> None:
    assert read_model({**KNOWN, group: {"quux": 1}}).model.assumed == (f"ignored keys: {group}.quux",)


@pytest.mark.parametrize("wrapper", ["text_config", "thinker_config", "llm_config"])
def test_a_foreign_key_around_the_language_model_is_named(wrapper: str) -> None:
    around = {"model_type": "qwen3_vl", wrapper: KNOWN, "quux": 1, "vision_config": {"depth": 2}, "image_size": 448}
    assert read_model(around).model.assumed == ("ignored keys: quux",)
    assert "quux_layers" in problems({**around, "quux_layers": 2})[0]


@pytest.mark.parametrize("key", STRUCTURAL)
def test_a_foreign_key_of_layers_heads_experts_windows_or_formats_is_refused(key: str) -> None:
    (problem,) = problems({**KNOWN, key: STRUCTURAL[key]})
    assert key in problem
    assert read_model({**KNOWN, key: None}).model.assumed == ()


@pytest.mark.parametrize("value", [False, 0, [], {}, "", True, 0.5, "word"])
def test_what_such_a_key_switches_off_or_says_in_words_is_named(value: Any) -> None:
    assert read_model({**KNOWN, "quux_layers": value}).model.assumed == ("ignored keys: quux_layers",)


def test_of_a_config_of_foreign_keys_alone_every_one_is_named() -> None:
    foreign = {**{f"quux_{kind}": value for kind, value in NAMED.items()}, **STRUCTURAL}
    said = " ".join(problems(foreign))
    assert [key for key in foreign if key not in said] == []
    assert "model_type" in said


def test_a_foreign_key_is_left_out_by_null(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**KNOWN, "quux_layers": 3}))
    assert resolve_model({"same_as": ".", "quux_layers": None}, tmp_path).model.assumed == ()


def test_a_foreign_key_lowers_the_evidence_and_widens_the_interval(tmp_path):
    asked = {
        "cluster": "1x h100-sxm-80gb",
        "plan": {"framework": "vllm"},
        "workload": {"task": "generate", "prompt_tokens": 512, "output_tokens": 64, "batch": 4},
    }
    found = []
    for name, config in {"sure": BIG, "unsure": {**BIG, "quux": 1}}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
        found.append(sl.predict(sl.load({**asked, "model": str(tmp_path / f"{name}.json")})))
    sure, unsure = found
    (low, high), (lower, higher) = sure.interval["tpot_s"], unsure.interval["tpot_s"]
    assert lower < low < high < higher
    assert sure.evidence["framework"] != unsure.evidence["framework"] == "estimated"
    assert any("quux" in warning for warning in unsure.warnings)


def test_every_harmless_key_has_a_reason_and_is_not_read() -> None:
    s = spellings()
    theirs = {key for others in s.spellings.values() for key in others}
    assert all(len(why.split()) > 1 for why in s.harmless.values())
    for read in (MODEL, theirs, s.features, s.foreign, s.repeats, s.numbered, s.coded, s.derived):
        assert s.harmless.keys() & {*read} == set()


@pytest.mark.parametrize(
    ("repeated", "value", "named"),
    [("org_vocab_size", 1000, False), ("org_vocab_size", 999, True), ("block_dim", 64, False), ("block_dim", 32, True)],
)
def test_a_key_that_repeats_another_figure_is_named_where_it_does_not(repeated: str, value: int, named: bool) -> None:
    assert bool(read_model({**KNOWN, repeated: value}).model.assumed) == named
