"""Whether predictions rank the plans that somebody measured on one cluster as the measurements do.

The aim: the plan that is predicted to be fastest is at most 5 % slower than the fastest measured one, and ten plans or
more have a rank correlation of 0.95. What is not reached is held to what is, so that it can only improve.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.validation.cases import Answer, Case, Suite
from sightline.validation.evaluation import choose, evaluate
from sightline.validation.rankings import rankings

AIM, ALIKE = 0.05, 0.95
IN_CATALOG = {"bigscience-tr11": 10, "korthikanti-2022-table5": 4}
"""Sweeps of the suites that the catalog holds whole."""
IN_DATA = {
    "llmq": 1,
    "mlperf-llama-2-70b-lora": 2,
    "simumax-b200-time": 3,
    "vtrain-single-node-tp8": 8,
    "aiconfigurator-unseen": 7,
}
"""Further suites, of which every sweep reaches the aim."""


def of_suite(name, data=None):
    suite = next(suite for suite in choose(name, data) if suite.name == name)
    return list(
        rankings(suite.name, suite.quantity, [answer for result in evaluate([suite]) for answer in result.answers])
    )


@pytest.mark.parametrize(("name", "sweeps"), IN_CATALOG.items())
def test_the_predicted_best_is_about_the_measured_best(name, sweeps):
    found = of_suite(name)
    assert len(found) == sweeps
    assert max(ranking.loss for ranking in found) <= AIM


@pytest.mark.parametrize(
    ("name", "sweeps"),
    [
        pytest.param(*part, marks=pytest.mark.slow if part[0] == "aiconfigurator-unseen" else ())
        for part in IN_DATA.items()
    ],
)
def test_the_predicted_best_is_about_the_measured_best_in_public_data(name, sweeps, data):
    found = of_suite(name, data)
    assert len(found) == sweeps
    assert max(ranking.loss for ranking in found) <= AIM


def test_the_large_sweep_of_bigscience_is_ranked_no_worse_than_it_was():
    # Thirteen plans of one model on 384 devices, half of them within 8 %. Runs of the same plan differ by 2 to 6 %, with
    # which a perfect prediction would have 0.93 to 0.97.
    (large,) = [ranking for ranking in of_suite("bigscience-tr11") if len(ranking.plans) >= 10]
    assert len(large.plans) == 13
    assert large.correlation > 0.72


@pytest.mark.slow
def test_small_models_on_one_node_are_ranked_no_worse_than_they_were(data):
    # Hidden sizes of 1,024 and 2,048, where the host limits many plans. The plans that are missed have a tensor
    # parallelism of 4 and a micro-batch of 2, which are predicted a quarter too slow.
    found = of_suite("vtrain-single-node", data)
    large = [ranking for ranking in found if len(ranking.plans) >= 10]
    assert (len(found), len(large)) == (116, 18)
    assert sum(ranking.loss > AIM for ranking in found) <= 17
    assert max(ranking.loss for ranking in found) < 0.26
    assert sum(ranking.correlation >= ALIKE for ranking in large) >= 13
    assert min(ranking.correlation for ranking in large) > 0.82


def test_three_ways_to_offload_on_one_device_are_ranked_no_worse_than_they_were(data):
    (only,) = of_suite("mi210-finetuning-speed", data)
    assert only.loss < 0.1


@pytest.mark.slow
def test_layouts_of_engines_are_ranked_no_worse_than_they_were(data):
    # Two or three layouts of a model on the same devices with the same batch, by the time per token.
    found = of_suite("aiconfigurator-aggregated", data)
    assert len(found) == 45
    assert sum(ranking.loss > AIM for ranking in found) <= 2
    assert max(ranking.loss for ranking in found) < 0.12


def answer(measured, predicted, **plan):
    work = {"task": "pretrain", "sequence_length": 8, "global_batch": plan.pop("batch", 64)}
    scenario = {"model": "m", "cluster": {"devices": "8x d"}, "workload": work, "plan": {"framework": "f", **plan}}
    return Answer(case=Case(scenario=scenario, measured=measured, split="test"), predicted=predicted)


def suite(quantity="step_time_s"):
    return Suite(name="s", quantity=quantity, source="", decisions=(), cases=(), left_out={})


def test_only_plans_of_one_question_are_compared():
    answers = [
        *(answer(2.0, 2.1, micro_batch=1), answer(1.0, 1.5, micro_batch=2), answer(1.0, 1.5, micro_batch=2, batch=65)),
        *(answer(1.0, 1.0, micro_batch=4, batch=128), answer(0.1, 0.1, micro_batch=4, dtype="fp8")),
    ]
    (found,) = rankings("s", "step_time_s", answers)
    assert found.plans == [{"micro_batch": 1}, {"micro_batch": 2}]
    assert found.loss == 0


def test_a_plan_measured_twice_counts_once_with_its_mean():
    answers = [answer(2.0, 2.0, micro_batch=1), answer(1.0, 2.0, micro_batch=1), answer(1.2, 3.0, micro_batch=2)]
    (found,) = rankings("s", "step_time_s", answers)
    assert found.measured == pytest.approx([(32 + 64) / 2, 64 / 1.2])
    assert found.loss == pytest.approx(64 / 1.2 / 48 - 1)


TIMES = st.integers(7, 640).map(lambda count: count / 64)


@given(st.lists(TIMES, min_size=3, max_size=12, unique=True), st.sampled_from([0.25, 0.5, 2.0, 4.0]))
def test_a_constant_error_changes_no_ranking(times, factor):
    answers = [answer(time, time * factor, micro_batch=place) for place, time in enumerate(times)]
    (found,) = rankings("s", "step_time_s", answers)
    assert found.loss == 0
    assert found.correlation == pytest.approx(1)
    (reversed_,) = rankings("s", "tokens_per_s", [answer(t, 1 / t, micro_batch=p) for p, t in enumerate(times)])
    assert reversed_.correlation == pytest.approx(-1)
    assert reversed_.loss == pytest.approx(max(times) / min(times) - 1)
