"""Errors of a suite are those of its cases; what cannot be answered says why."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from sightline.errors import InputError, WorkError
from sightline.profile import StageMemory
from sightline.validation.cases import Answer, Case, result_of
from sightline.validation.evaluation import choose, evaluate, suites, validate


def case(measured=2.0):
    return Case(scenario={}, measured=measured, split="test")


def answered(predicted, measured=2.0, interval=None):
    return Answer(case=case(measured), predicted=predicted, interval=interval)


def profile(*, step_time_s=1.0, layer_activations=1.0, interval=None):
    """As much of a profile as the suites read."""
    stage = StageMemory(stage="first", parts={}, items={"layer activations": layer_activations}, moments={})
    return SimpleNamespace(step_time_s=step_time_s, tokens_per_s=1.0, stages=[stage], interval=interval or {})


def test_statistics_of_a_split():
    answers = [answered(2.2), answered(1.9), answered(2.8), Answer(case=case(), reason="too large")]
    result = result_of("suite", "step_time_s", "test", answers)
    assert (result.cases, result.unanswered) == (4, 1)
    assert result.mape == pytest.approx((0.1 + 0.05 + 0.4) / 3)
    assert result.median_ape == pytest.approx(0.1)
    assert result.max_ape == pytest.approx(0.4)
    assert result.bias == pytest.approx((0.1 - 0.05 + 0.4) / 3)
    assert result.coverage is None


def test_coverage_counts_intervals_that_hold_the_measured_value():
    answers = [answered(2.2, interval=(1.9, 2.5)), answered(2.2, interval=(2.1, 2.3)), answered(2.0)]
    assert result_of("suite", "step_time_s", "test", answers).coverage == 0.5


def test_a_split_without_answers_has_no_errors():
    result = result_of("suite", "step_time_s", "fit", [Answer(case=case(), reason="why")])
    assert (result.mape, result.median_ape, result.max_ape, result.bias) == (None, None, None, None)


def test_results_have_the_documented_keys():
    keys = "suite quantity split cases unanswered mape median_ape p90_ape max_ape bias coverage half_width"
    assert list(result_of("suite", "step_time_s", "fit", []).to_dict()) == keys.split()


def test_a_perfect_prediction_has_no_error():
    (suite,) = (suite for suite in suites() if suite.name == "korthikanti-2022-table5")
    measured = {}
    for each in suite.cases:
        plan = each.scenario["plan"]
        shape = (each.scenario["model"]["num_hidden_layers"], plan["recompute"], plan["sequence_parallel"])
        measured[shape] = each.measured

    def perfect(scenario):
        plan = scenario.plan
        return profile(step_time_s=measured[scenario.model.layers, plan.recompute, bool(plan.sequence_parallel)])

    results = validate("korthikanti-2022-table5", predict=perfect)
    assert {r.split for r in results} == {"fit", "test"}
    assert all(r.max_ape == pytest.approx(0) for r in results)


def test_relative_quantities_are_divided_by_the_baseline():
    def halved(scenario):
        plain = scenario.plan.recompute == "none" and not scenario.plan.sequence_parallel
        return profile(layer_activations=10.0 if plain else 5.0)

    for result in validate("korthikanti-2022-fig7", predict=halved):
        assert all(answer.predicted == 0.5 for answer in result.answers)


def test_an_interval_is_that_of_the_quantity():
    def sure(_):
        return profile(interval={"step_time_s": (0.5, 1e9)})

    assert [r.coverage for r in validate("korthikanti-2022-table5", predict=sure)] == [1.0, 1.0]


def with_a_second_reading():
    """A suite, a case of it that may have been run with twice the batch, and that batch."""
    suite = choose("narayanan-2021-table1")[0]
    first = suite.cases[0]
    batch = 2 * first.scenario["workload"]["global_batch"]
    second = {**first.scenario, "workload": {**first.scenario["workload"], "global_batch": batch}}
    return suite, replace(first, alternative=second), batch


def test_an_interval_spans_both_readings_of_a_case():
    suite, first, batch = with_a_second_reading()

    def sure(scenario):
        return profile(interval={"step_time_s": (4.0, 5.0) if scenario.workload.global_batch == batch else (2.0, 3.0)})

    open_to_both = replace(suite, cases=(first, replace(first, alternative=None)))
    spans = [answer.interval for result in evaluate([open_to_both], sure) for answer in result.answers]
    assert spans == [(2.0, 5.0), (2.0, 3.0)]


def test_a_case_whose_other_reading_cannot_be_answered_says_why():
    suite, first, batch = with_a_second_reading()

    def half(scenario):
        if scenario.workload.global_batch == batch:
            raise WorkError("no such deployment")
        return profile()

    (result,) = evaluate([replace(suite, cases=(first,))], half)
    assert [answer.reason for answer in result.answers] == ["no such deployment"]


def test_what_fails_is_unanswered_with_its_reason():
    def fails(_):
        raise WorkError("no constants for this device")

    for result in validate("narayanan-2021-table1", predict=fails):
        assert result.unanswered == result.cases
        assert {a.reason for a in result.answers} == {"no constants for this device"}
        with pytest.raises(ValueError, match="no error"):
            _ = result.answers[0].error


def test_a_bug_is_not_hidden():
    def broken(_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        validate("narayanan-2021-table1", predict=broken)


def test_unknown_suites_are_refused_all_at_once():
    with pytest.raises(InputError) as error:
        validate(["korthikanti-2022-tabel5", "nonsense"], predict=lambda _: profile())
    assert len(error.value.problems) == 2
    assert "did you mean 'korthikanti-2022-table5'?" in error.value.problems[0]


def test_a_bound_is_no_answer():
    stated = {
        "model": "llama-2-7b",
        "cluster": "8x a100-sxm-80gb",
        "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 8},
        "plan": {"framework": "reference", "micro_batch": 1},
    }
    chosen = replace(suites()[0], quantity="step_time_s", cases=(Case(scenario=stated, measured=1.0, split="fit"),))
    (result,) = evaluate([chosen], None)
    assert result.unanswered == 1
    assert "bound" in str(result.answers[0].reason)
