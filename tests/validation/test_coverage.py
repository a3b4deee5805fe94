"""The coverage says what predictions say."""

from collections import Counter

import pytest

import sightline as sl
from sightline.catalog import names
from sightline.errors import InputError
from sightline.frameworks import read_framework
from sightline.loading.clusters.cluster import read_device
from sightline.validation.coverage import (
    FEATURES,
    SERVING_ONLY,
    STATUSES,
    TECHNIQUES,
    coverage,
    feature_cells,
    operator_cells,
    subjects,
    technique_cells,
)
from sightline.validation.coverage_cells import Choice, published

STATUS_OF = {"calibrated": "calibrated", "extrapolated": "extrapolated", "estimated": "extrapolated"}
STATUS_OF["datasheet"] = "datasheet-only"


@pytest.fixture(scope="module")
def megatron():
    return list(technique_cells("megatron"))


def said(cell):
    """What a user who asks for the cell's scenario is told: the evidence, or nothing where it is refused."""
    try:
        scenario = sl.load(cell.question)
    except InputError as refusal:
        return "", " ".join(refusal.problems)
    evidence = sl.predict(scenario).evidence
    return evidence if isinstance(evidence, str) else evidence["framework"], ""


@pytest.mark.parametrize("device", ["h100-sxm-80gb", "t4", "tpu-v5p"])
def test_cells_of_operators_are_the_answers_of_predictions(device):
    for cell in list(operator_cells(read_device(device)))[::7]:
        evidence, refusal = said(cell)
        assert cell.evidence == evidence
        assert cell.status == (STATUS_OF[evidence] if evidence else "unsupported")
        if refusal:
            assert cell.why == refusal


def test_cells_of_techniques_are_the_answers_of_predictions(megatron):
    for cell in megatron[::4]:
        evidence, refusal = said(cell)
        assert cell.evidence == evidence
        assert (cell.status == "unsupported") == bool(refusal)


def test_a_technique_is_no_better_known_than_its_framework(megatron):
    for cell in megatron:
        if cell.status == "calibrated":
            assert (cell.evidence, cell.published.cases >= 10, cell.published.sources >= 2) == (
                "calibrated",
                True,
                True,
            )
        elif cell.status == "extrapolated":
            assert cell.why


@pytest.mark.parametrize("device", ["h100-sxm-80gb", "rtx-4070", "tpu-v5p"])
def test_an_operator_says_why_it_is_not_calibrated(device):
    for cell in operator_cells(read_device(device)):
        assert bool(cell.why) == (cell.status != "calibrated"), cell


def test_the_reason_names_the_formats_that_were_measured_or_the_relative():
    reasons = {(cell.of, cell.what, cell.dtype): cell.why for cell in coverage("h100-sxm-80gb") + coverage("rtx-4070")}
    assert reasons["h100-sxm-80gb", "norm", "fp32"].count("16") == 2
    assert reasons["h100-sxm-80gb", "norm", "bf16"] == ""
    alone = "the operator was measured neither on the device nor on a relative of it"
    assert reasons["h100-sxm-80gb", "copy host-to-device", "bf16"] == alone
    assert "rtx-4090" in reasons["rtx-4070", "matmul", "bf16"]
    assert reasons["rtx-4070", "matmul", "nvfp4"].startswith("workload.dtype is 'nvfp4'")


def test_cells_hold_every_status_and_no_other():
    found = Counter(
        cell.status for name in ("a100-sxm-80gb", "v100-sxm2-32gb") for cell in operator_cells(read_device(name))
    )
    assert set(found) == set(STATUSES)


def test_the_reference_refuses_no_technique():
    assert not [cell.why for cell in technique_cells("reference") if cell.status == "unsupported"]


@pytest.mark.parametrize("framework", ["megatron", "fsdp", "litgpt"])
def test_refusals_are_of_the_technique_and_not_of_the_scenario_around_it(framework):
    refused = [cell for cell in technique_cells(framework) if cell.status == "unsupported"]
    assert refused
    assert all(framework in cell.why for cell in refused)


@pytest.mark.slow
@pytest.mark.parametrize("engine", names("engines"))
def test_cells_of_engines_are_the_answers_of_predictions(engine):
    for cell in feature_cells(engine):
        if cell.question["workload"]["task"] == "generate":
            evidence, refusal = said(cell)
            assert cell.evidence == evidence
            assert (cell.status == "unsupported") == bool(refusal)


def test_features_of_loads_are_asked_of_loads():
    assert {f.name for f in FEATURES if f.task == "serve"} == {f.name for f in FEATURES if SERVED & set(f.plan)}


SERVED = set(SERVING_ONLY)


def test_names_are_told_apart():
    for choices in (TECHNIQUES, FEATURES):
        assert max(Counter(choice.name for choice in choices).values()) == 1


@pytest.mark.parametrize(
    ("plan", "has"),
    [
        ({"tensor_parallel": 4}, {"tensor parallelism"}),
        (
            {"zero_stage": 3, "offload": ["optimizer", "activations"]},
            {"ZeRO 3", "offload optimizer", "offload activations"},
        ),
        ({"recompute": ["mlp", "layernorm"]}, {"recompute mlp", "recompute layernorm"}),
        ({"adapter": {"kind": "lora"}}, {"lora"}),
    ],
)
def test_published_plans_are_told_by_their_techniques(plan, has):
    scenario = sl.load(
        {
            "model": "llama-3-8b",
            "cluster": "8x h100-sxm-80gb",
            "workload": {"task": "finetune", "sequence_length": 2048, "global_batch": 8},
            "plan": {"framework": "reference", "micro_batch": 1, **plan},
        }
    )
    usual = {"attention flash", "dtype bf16", "optimizer adamw"}
    assert {technique.name for technique in TECHNIQUES if technique.is_of(scenario)} - usual == has


def test_a_cache_of_prefixes_counts_where_prompts_share_some():
    shared = Choice(
        name="cache", plan={"prefix_cache": True}, prefix_tokens=64, model="llama-3.1-8b", task="generate", devices=1
    )
    asked = shared.question("vllm", "h100-sxm-80gb", {"batch": 2, "prompt_tokens": 128, "output_tokens": 8})
    assert shared.is_of(sl.load(asked))
    alone = {**asked, "workload": {**asked["workload"], "prefix_tokens": 0}}
    assert not shared.is_of(sl.load(alone))


def test_counted_names_are_those_of_the_choices():
    for of, choices, listed in (
        ("techniques", TECHNIQUES, [read_framework(name).lineage for name in names("frameworks")]),
        ("features", FEATURES, names("engines")),
    ):
        known = {choice.name for choice in choices}
        from sightline.catalog import entry
        from sightline.validation.coverage_cells import KINDS, NAME

        counts = entry(KINDS[of], NAME)["counts"]
        assert set(counts) <= {*listed, "megatron-lm"}
        assert {name for by in counts.values() for name in by} <= known, "run scripts/count_published_plans.py"


def test_what_nobody_published_counts_as_nothing():
    assert published("features", "no such engine")("tensor parallelism").cases == 0


def test_a_pattern_chooses_and_an_unknown_name_has_a_neighbour():
    assert {cell.of for cell in coverage("v100-sxm2*")} == {"v100-sxm2-16gb", "v100-sxm2-32gb"}
    assert {table for table, _ in subjects()} == {"operators", "techniques", "features"}
    with pytest.raises(InputError, match="did you mean 'megatron'"):
        coverage("megatorn")
