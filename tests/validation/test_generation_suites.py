"""Suites of generation: what the tables mean, and that every usable row can be asked."""

import pytest

from sightline.loading import generation_from_mapping
from sightline.validation.evaluation import suites

NOT_IN_THE_CATALOG = ("stablelm-base-alpha-3b",)
"""Models that nobody has written down; their cases are unanswered."""

LEAST_CASES = {
    "fastertransformer-gpt": 147,
    "litgpt-decode": 10,
    "llama.cpp-apple-decode": 37,
    "llama.cpp-apple-prefill": 37,
    "llama.cpp-llama-2-decode": 22,
    "llama.cpp-llama-2-prefill": 9,
    "llama.cpp-llama-3-decode": 55,
    "llama.cpp-llama-3-prefill": 47,
    "lmdeploy-static-batch": 15,
    "mlc-llm": 10,
    "nemo-llama-2-128-20": 32,
    "qwen-transformers": 13,
    "splitwise-decode": 142,
    "splitwise-prefill": 98,
    "tensorrt-llm-first-token": 64,
    "tensorrt-llm-throughput": 119,
}


@pytest.fixture(scope="module")
def known(data):
    return {suite.name: suite for suite in suites(data, list(LEAST_CASES))}


@pytest.mark.parametrize("name", LEAST_CASES)
def test_the_usable_rows_are_cases_that_load(known, name):
    suite = known[name]
    assert suite.kind == "generation"
    assert len(suite.cases) >= LEAST_CASES[name]
    for case in suite.cases:
        if case.scenario["model"] in NOT_IN_THE_CATALOG:
            continue
        loaded = generation_from_mapping(case.scenario)
        assert loaded.cluster.devices == loaded.plan.devices


@pytest.mark.parametrize("name", LEAST_CASES)
def test_neighbours_share_their_part(known, name):
    parts = {}
    for case in known[name].cases:
        plan, shape = case.scenario["plan"], case.scenario["model"]
        size = shape if isinstance(shape, str) else (shape["hidden_size"], shape["num_hidden_layers"])
        degrees = (case.scenario["cluster"]["devices"], plan.get("tensor_parallel"), plan.get("pipeline_parallel"))
        beside = case.scenario["workload"]["batch"] if name == "lmdeploy-static-batch" else 0
        family = size if name in ("qwen-transformers", "litgpt-decode") else (size, *degrees, beside)
        assert parts.setdefault(family, case.split) == case.split


def test_splitwise_repeats_are_averaged(known):
    """Llama-2-70B on two A100, one prompt of 512: the source repeats it with several numbers of tokens."""
    asked = [
        case
        for case in known["splitwise-prefill"].cases
        if (case.scenario["model"], case.scenario["cluster"]["devices"]) == ("llama-2-70b", "2x a100-sxm-80gb")
        and (case.scenario["workload"]["prompt_tokens"], case.scenario["workload"]["batch"]) == (512, 1)
    ]
    assert len(asked) == 1
    assert asked[0].measured == pytest.approx(0.197, abs=2e-3)
    assert known["splitwise-prefill"].left_out


@pytest.mark.parametrize("name", ["llama.cpp-apple-decode", "llama.cpp-apple-prefill"])
def test_no_constant_is_fitted_to_the_collection_of_apple_devices(known, name):
    assert {case.split for case in known[name].cases} == {"test"}


def test_llama_cpp_rates_are_times(known):
    decode = {
        (case.scenario["model"], case.scenario["cluster"]["devices"], case.scenario["plan"]["quantization"]): case
        for case in known["llama.cpp-llama-3-decode"].cases
    }
    case = decode["llama-3-70b", "6x rtx-3090", "q4_k_m"]
    assert case.measured == pytest.approx(1 / 16.93)
    assert case.scenario["plan"]["pipeline_parallel"] == 6


def test_tensorrt_llm_counts_the_whole_group(known):
    values = {
        (c.scenario["model"], c.scenario["cluster"]["devices"], c.scenario["workload"]["batch"]): c.measured
        for c in known["tensorrt-llm-throughput"].cases
    }
    assert values["falcon-180b", "8x a100-sxm-80gb", 64] in (929, 202, 8 * 29)
    assert values["llama-2-70b", "2x h100-sxm-80gb", 1024] in (2 * 2657, 2 * 3269, 2 * 3214)


def test_tensorrt_llm_quantized_no_mixtures(known):
    """Its rows under "FP8" have the degrees and batches of those on A100: 8 bits came with 0.10."""
    names = ("tensorrt-llm-first-token", "tensorrt-llm-throughput")
    plans = {c.scenario["model"]: c.scenario["plan"] for name in names for c in known[name].cases if _on_h100(c)}
    assert not plans["mixtral-8x7b"]["quantization"]
    assert plans["llama-2-70b"]["quantization"] == ["fp8", "kv-fp8"]


def test_tensorrt_llm_reprinted_rows_count_once(known):
    asked = [
        case
        for case in known["tensorrt-llm-first-token"].cases
        if case.scenario["model"] == "llama-2-70b"
        and case.scenario["workload"]["prompt_tokens"] == 128
        and case.scenario["plan"]["framework_version"] == "0.5"
        and _on_h100(case)
    ]
    assert [case.measured for case in asked] == pytest.approx([0.026])


def _on_h100(case):
    return case.scenario["cluster"]["devices"].endswith("h100-sxm-80gb")


def test_families_kept_from_every_fit_are_tested_whole(data):
    names = ["aiconfigurator-aggregated", "aiconfigurator-disaggregated", "aiconfigurator-unseen"]
    *fitted, unseen = suites(data, names)
    held_out = {family(case) for case in unseen.cases}
    assert held_out
    assert all(family(case) not in held_out or case.split == "test" for suite in fitted for case in suite.cases)


def family(case):
    return case.scenario["model"], case.scenario["cluster"]["devices"].split("x ", 1)[1]
