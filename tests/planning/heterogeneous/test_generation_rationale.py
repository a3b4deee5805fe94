"""Why a plan of generation on heterogeneous devices is the best: other kinds, and other uses of several."""

import pytest

from sightline.planning.search import plan

A100, H100 = "8x a100-sxm-80gb", "8x h100-sxm-80gb"
FIXED = {"pipeline_parallel": 1, "data_parallel": 1, "quantization": "none", "max_batched_tokens": 8192}


def asked(**limits: str):
    work = {"task": "generate", "batch": 32, "prompt_tokens": 2000, "output_tokens": 100, "continuous": True}
    own = {"framework": "vllm", "tensor_parallel": 8, "chunked_prefill": True, "disaggregate": {"any": [False]}}
    question = {"model": "llama-3.1-70b", "cluster": {"devices": [A100, H100]}, "workload": work}
    return plan({**question, "plan": {**FIXED, **own}}, top=1, **limits)


@pytest.fixture(scope="module")
def answer():
    return asked()


def test_each_kind_alone_and_both_together_are_compared(answer):
    best = answer.plans[0].profile.scenario.cluster
    uses = [one.set for one in answer.neighbours]
    assert uses
    assert len({str(use) for use in uses}) == len(uses)
    assert best.in_words not in {one.profile.scenario.cluster.in_words for one in answer.plans[1:]}
    losses = [one.loss for one in answer.neighbours if one.loss is not None]
    assert losses == sorted(losses)
    assert all(loss >= 0 for loss in losses)


def test_where_no_kind_keeps_the_limits_each_says_what_it_needs():
    unmet = asked(tpot="0.1 ms")
    assert not unmet.plans
    assert {"cluster"} <= {key for one in unmet.nearest for key in one.set}
    assert any("tpot" in one.set for one in unmet.nearest)
