"""The base scenario of a built-in study."""

import pytest

from sightline.errors import InputError
from sightline.exploration.base import StudyRequest, base_of, name_of

BASE = {"model": "llama-2-7b", "workload": {"task": "generate", "batch": 1}}


def test_request_sets_what_the_study_leaves():
    base = base_of(BASE, StudyRequest(overrides={"plan.dtype": "fp8", "model": "llama-2-13b"}), ("cluster",))
    assert base == {**BASE, "model": "llama-2-13b", "plan": {"dtype": "fp8"}}
    assert BASE["model"] == "llama-2-7b"


@pytest.mark.parametrize("key", ["cluster", "cluster.device", "workload.batch", "workload"])
def test_what_a_study_varies_is_not_set(key):
    with pytest.raises(InputError, match=f"{key} cannot be set"):
        base_of(BASE, StudyRequest(overrides={key: 1}), ("cluster", "workload.batch"))


def test_keys_are_told_apart_by_whole_words():
    assert (
        base_of(BASE, StudyRequest(overrides={"workload.batches": 2}), ("workload.batch",))["workload"]["batches"] == 2
    )


@pytest.mark.parametrize("value", [3, None, "x", [1]])
def test_what_holds_keys_keeps_them(value):
    with pytest.raises(InputError, match=r"plan is .*; allowed: .*plan\.dtype"):
        base_of({**BASE, "plan": {"dtype": "fp8"}}, StudyRequest(overrides={"plan": value}), ())


def test_a_part_that_is_set_keeps_what_it_leaves_out():
    base = base_of(BASE, StudyRequest(overrides={"workload": {"batch": 4}}), ("cluster",))
    assert base["workload"] == {"task": "generate", "batch": 4}


@pytest.mark.parametrize(("length", "tokens"), [("4k", 4096), (200, 200), ("many", "many"), ("0.3k", "0.3k")])
def test_lengths_are_numbers_where_they_are_whole(length, tokens):
    base = base_of(BASE, StudyRequest(overrides={"workload.prompt_tokens": length}), ())
    assert base["workload"]["prompt_tokens"] == tokens


def test_models_and_clusters_have_names_in_sentences():
    assert [name_of(part) for part in ("gpt-3-175b", {"same_as": "gpt-3-175b", "layers": 2})] == ["gpt-3-175b"] * 2
    assert name_of({"devices": "8x h100-sxm-80gb", "network": "none"}) == "8x h100-sxm-80gb"
