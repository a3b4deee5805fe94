"""A framework of one's own is predicted as one that it is like, with a wider interval and weaker evidence."""

from math import log

import pytest

from sightline import load, predict
from sightline.errors import InputError
from sightline.launching.registry import obstacles
from sightline.loading import to_mapping
from sightline.planning.search import plan

ASKED = {
    "model": "llama-2-13b",
    "cluster": "16x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 64},
}
PLAN = {"tensor_parallel": 2, "sequence_parallel": True, "micro_batch": 1, "zero_stage": 1}


def asked(framework, **more):
    return {**ASKED, "plan": {"framework": framework, **PLAN, **more}}


def width(profile):
    low, high = profile.interval["step_time_s"]
    return log(high / low) / 2


@pytest.fixture(scope="module")
def both():
    return [predict(load(asked(framework))) for framework in ("megatron", {"like": "Megatron-LM"})]


def test_the_time_is_that_of_its_like_and_less_sure(both):
    named, own = both
    assert own.step_time_s == named.step_time_s
    assert own.memory_bytes["total"] == named.memory_bytes["total"]
    assert 1.1 * width(named) < width(own) < 1.5 * width(named)
    assert named.evidence["framework"] == "calibrated"
    assert own.evidence["framework"] == "extrapolated"
    assert "framework like" in own.missing["framework"]


def test_choices_of_the_plan_stay_its_own():
    found = predict(load(asked({"like": "megatron"}, overlap_gradient_reduce=False)))
    assert found.evidence["framework"] == "extrapolated"


def test_it_is_written_as_it_is_read(both):
    own = both[1].scenario
    written = to_mapping(own)
    assert written["plan"]["framework"] == {"like": "megatron"}
    assert load(written).plan.to_dict() == own.plan.to_dict()


def test_no_launch_is_written_for_it(both):
    assert not obstacles(both[0].scenario)
    (said,) = obstacles(both[1].scenario)
    assert "like megatron" in said


def test_it_is_searched_as_its_like():
    first, same = (
        plan({**ASKED, "plan": {"framework": of, **PLAN}}, top=1) for of in ("megatron", {"like": "megatron"})
    )
    assert (same.evaluated, same.plans[0].value) == (first.evaluated, first.plans[0].value)
    assert not same.plans[0].launchable


@pytest.mark.parametrize(
    ("framework", "named"),
    [
        ({"like": "megatorn"}, "did you mean 'megatron'"),
        ({"like": "reference"}, "reference"),
        ({"liek": "megatron"}, "{like: NAME}"),
        ({"like": ["megatron"]}, "allowed: text"),
    ],
    ids=str,
)
def test_mistakes_are_named(framework, named):
    with pytest.raises(InputError) as error:
        load(asked(framework))
    (problem,) = error.value.problems
    assert problem.startswith("plan.framework")
    assert named in problem


def test_engines_have_a_name():
    work = {"task": "generate", "batch": 1, "prompt_tokens": 64, "output_tokens": 8}
    with pytest.raises(InputError, match="generation"):
        load({**ASKED, "workload": work, "plan": {"framework": {"like": "vllm"}}})
