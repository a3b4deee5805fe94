"""The two views of a device, and what a study says of them."""

import pytest

from sightline import catalog
from sightline.exploration.base import in_view, said_of
from sightline.frameworks.framework import IDEAL


def test_training_and_generation_have_the_same_ideal_shares():
    trains, generates = catalog.entry("frameworks", IDEAL), catalog.entry("inference", IDEAL)
    shares = trains["ideal"]
    constants = generates["constants"]
    assert (shares["peak"], shares["bandwidth"]) == (constants["peak_share"], constants["bandwidth_share"])


def test_the_ideal_view_says_the_shares_of_the_catalog():
    assert f"{100 * catalog.entry('frameworks', IDEAL)['ideal']['peak']:.0f} % of their peak" in said_of("ideal")


@pytest.mark.parametrize("view", ["ideal", "calibrated"])
def test_a_study_may_assume_more(view):
    assert said_of(view).startswith(f"{view.capitalize()} view: ")
    assert said_of(view, "in fp8") == said_of(view)[:-1] + "; in fp8."


def test_the_ideal_view_replaces_the_framework_alone():
    stated = {
        "model": "llama-2-7b",
        "plan": {"framework": "megatron", "framework_version": "core-0.9", "dtype": "bf16"},
    }
    assert in_view(stated, "calibrated") == stated
    assert in_view(stated, "ideal") == {"model": "llama-2-7b", "plan": {"framework": "reference", "dtype": "bf16"}}
