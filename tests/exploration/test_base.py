"""The base scenario of a built-in study."""

import pytest

from sightline.errors import InputError
from sightline.exploration.base import base_of
from sightline.exploration.request import StudyRequest

BASE = {"model": "llama-2-7b", "workload": {"task": "generate", "batch": 1}}


def test_request_sets_what_the_study_leaves():
    base = base_of(BASE, StudyRequest(overrides={"plan.dtype": "fp8", "model": "llama-2-13b"}), ("cluster",))
    assert base == {**BASE, "model": "llama-2-13b", "plan": {"dtype": "fp8"}}
    assert BASE["model"] == "llama-2-7b"


@pytest.mark.parametrize("key", ["cluster", "cluster.device", "workload.batch", "workload"])
def test_what_a_study_varies_is_not_set(key):
    with pytest.raises(InputError, match=f"{key} cannot be set: the study varies"):
        base_of(BASE, StudyRequest(overrides={key: 1}), ("cluster", "workload.batch"))


def test_keys_are_told_apart_by_whole_words():
    assert (
        base_of(BASE, StudyRequest(overrides={"workload.batches": 2}), ("workload.batch",))["workload"]["batches"] == 2
    )
