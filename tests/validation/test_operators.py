"""Suites of operators: thousands of rows predicted at once, with the figures of all and some of them shown."""

from dataclasses import replace

import numpy as np
import pytest

from sightline.validation.evaluation import validate
from sightline.validation.operators import SHOWN, Compared, OperatorSuite, results_of
from sightline.validation.operators.families import operator_suites


def suite(predicted, measured):
    part = Compared(predicted=np.array(predicted), measured=np.array(measured), sizes={"m": np.arange(len(measured))})
    return OperatorSuite(name="matmul", source="here", decisions=("none.",), compare=lambda: {"fit": part})


def test_figures_are_those_of_all_rows():
    measured = np.ones(1000)
    (result,) = results_of(suite(1 + np.linspace(0, 0.1, 1000), measured))
    assert (result.cases, result.unanswered, result.kind) == (1000, 0, "operators")
    assert result.mape == pytest.approx(0.05)
    assert result.median_ape == pytest.approx(0.05)
    assert result.p90_ape == pytest.approx(0.09)
    assert result.max_ape == pytest.approx(0.1)
    assert result.coverage is None


def test_coverage_is_told_of_the_part_that_did_not_set_the_width():
    errors, ones = 1 + np.linspace(0, 0.1, 1000), np.ones(1000)
    fitted, tested = suite(errors, ones).compare()["fit"], suite(1 + 2 * (errors - 1), ones).compare()["fit"]
    both = replace(suite(errors, ones), compare=lambda: {"fit": fitted, "test": tested})
    coverage = {r.split: r.coverage for r in results_of(both)}
    assert coverage == {"fit": None, "test": pytest.approx(0.4, abs=0.01)}


def test_intervals_are_as_wide_as_the_errors_of_rows_left_out():
    ones = np.ones(1000)
    fitted = suite(ones * 1.01, ones).compare()["fit"]
    tested = suite(1 + np.linspace(0, 0.1, 1000), ones).compare()["fit"]
    left_out = replace(fitted, unseen=np.linspace(-0.05, 0.05, 1001))
    both = replace(suite(ones, ones), compare=lambda: {"fit": left_out, "test": tested})
    coverage = {r.split: r.coverage for r in results_of(both)}
    assert coverage["test"] == pytest.approx(np.expm1(0.04) / 0.1, abs=0.01)


def test_without_a_fitted_part_there_is_no_interval():
    tested = suite(np.ones(10), np.ones(10)).compare()["fit"]
    (result,) = results_of(replace(suite([], []), compare=lambda: {"test": tested}))
    assert result.coverage is None
    assert all(answer.interval is None for answer in result.answers)


def test_some_rows_are_shown():
    (result,) = results_of(suite(np.ones(5000), np.ones(5000)))
    assert len(result.answers) == SHOWN
    assert result.answers[-1].case.scenario["name"] == "m 4999"


def test_a_table_without_rows_has_no_result():
    assert results_of(suite([], [])) == []


def test_there_are_none_without_a_data_folder(tmp_path):
    assert operator_suites(None) == ()
    assert operator_suites(tmp_path) == ()


def test_matmuls_are_compared_by_families_of_shapes(data):
    results = {r.split: r for r in validate("matmul-16-bit a100-sxm", data=data)}
    assert set(results) == {"fit", "test"}
    assert results["test"].cases > 1000
    assert results["fit"].median_ape < 0.04


@pytest.mark.parametrize("kind", ["matmul", "grouped-matmul", "attention", "element-wise", "nccl"])
def test_every_kind_of_operator_has_suites(data, kind):
    assert any(s.name.startswith(kind) for s in operator_suites(data))
