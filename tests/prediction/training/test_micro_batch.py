"""A micro-batch left open becomes the fastest that fits."""

from dataclasses import replace

import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from training_scenarios import training

from sightline.errors import InputError
from sightline.loading import load
from sightline.prediction import predict
from sightline.prediction.training.step_profile import divisors, profile_of
from sightline.scenario import Scenario
from sightline.scenario.rules import breaks_no_rule


def with_micro_batch(scenario: Scenario, micro_batch: int | None) -> Scenario:
    return replace(scenario, plan=replace(scenario.plan, micro_batch=micro_batch))


@given(st.integers(1, 5000))
def test_divisors_are_all_that_divide(number):
    assert divisors(number).tolist() == [d for d in range(1, number + 1) if number % d == 0]


@settings(max_examples=25)
@given(strategies.trainings(micro_batch=None))
def test_it_is_the_fastest_that_fits_or_else_the_smallest(scenario):
    chosen = predict(scenario)
    share = scenario.workload.global_batch // scenario.plan.data_parallel
    tried = [with_micro_batch(scenario, b) for b in divisors(share).tolist()]
    each = [profile_of(one) for one in tried if breaks_no_rule(one)]
    fitting = [profile for profile in each if profile.fits]
    if fitting:
        assert chosen.fits
        assert chosen.step_time_s == pytest.approx(min(p.step_time_s for p in fitting), rel=1e-12)
    else:
        assert not chosen.fits
        assert chosen.memory_bytes["total"] == pytest.approx(min(p.memory_bytes["total"] for p in each), rel=1e-12)
    assert chosen.scenario.plan.micro_batch in divisors(share)


def test_one_that_is_given_is_kept():
    scenario = training(model="gpt-125m", global_batch=64, plan={"micro_batch": 2})
    assert predict(scenario).scenario.plan.micro_batch == 2


def test_a_large_one_is_taken_where_memory_allows_it():
    small = predict(training(model="gpt-125m", cluster="1x a100-sxm-80gb", sequence_length=128, global_batch=64))
    assert small.scenario.plan.micro_batch > 8
    large = predict(
        training(model="llama-2-13b", cluster="8x a100-sxm-80gb", global_batch=64, plan={"tensor_parallel": 8})
    )
    assert large.fits
    assert large.scenario.plan.micro_batch < 64


def test_a_batch_of_half_a_billion_takes_no_longer_than_one_of_hundreds():
    # A search through every number up to the share would not end.
    profile = predict(training(model="gpt-125m", cluster="1x a100-sxm-80gb", global_batch=2**29))
    assert 2**29 % profile.scenario.plan.micro_batch == 0


def test_a_batch_that_replicas_cannot_share_is_refused():
    scenario = training(model="gpt-125m", cluster="8x a100-sxm-80gb", global_batch=8, plan={"micro_batch": 1})
    uneven = replace(scenario, workload=replace(scenario.workload, global_batch=12))
    with pytest.raises(InputError, match=r"workload\.global_batch 12 .* 8"):
        predict(with_micro_batch(uneven, None))


def test_a_schedule_limits_the_micro_batches():
    plan = {"framework": "reference", "pipeline_parallel": 2, "schedule": "dualpipe"}
    mapping = {"model": "llama-2-7b", "cluster": "8x h100-sxm-80gb", "plan": plan}
    mapping["workload"] = {"task": "pretrain", "sequence_length": 2048, "global_batch": 32}
    assert predict(load(mapping)).scenario.micro_batches in (4, 8)
    mapping["workload"]["global_batch"] = 4
    with pytest.raises(InputError, match="dualpipe with 1 micro-batches"):
        predict(load(mapping))
