"""Two results of the same load: what the requests have in common cancels."""

import json

import numpy as np
import pytest
from served_outcomes import outcome
from serving_scenarios import serving

import sightline as sl
from sightline.explanation.comparison import in_words, is_same_load, pairs
from sightline.render.csv import to_csv

ARRIVALS = tuple(np.linspace(0.0, 60.0, 200))
PREFILLS = 0.2 + 0.1 * np.random.default_rng(1).random(200)


def test_the_ratio_of_the_same_requests_is_known_better_than_either_time() -> None:
    slower = outcome(ARRIVALS, prefill_s=list(1.1 * PREFILLS))
    found = {pair.quantity: pair for pair in pairs(outcome(ARRIVALS, prefill_s=list(PREFILLS)), slower)}
    mean = found["ttft_s.mean"]
    assert mean.b.value / mean.a.value == pytest.approx(1.1)
    assert mean.spread.up < 1e-6
    assert found["tpot_s.mean"].b.value == pytest.approx(found["tpot_s.mean"].a.value)
    assert found["ttft_s.p90"].b.value > found["ttft_s.p50"].b.value


def test_only_requests_that_both_completed_count() -> None:
    status = [0] * 199 + [1]
    one, other = outcome(ARRIVALS), outcome(ARRIVALS, status=status)
    assert "199 matched requests" in in_words(one, other)


def test_other_loads_are_not_paired() -> None:
    one = outcome(ARRIVALS)
    assert is_same_load(one, outcome(ARRIVALS, gap_s=0.02))
    assert not is_same_load(one, outcome(ARRIVALS[:-1]))
    assert not is_same_load(one, outcome(ARRIVALS, output_tokens=12))
    assert not is_same_load(one, None)


def test_a_few_requests_say_little() -> None:
    (first, *_) = pairs(outcome(ARRIVALS[:10]), outcome(ARRIVALS[:10], prefill_s=0.6))
    assert first.spread.up > 0.5


def test_files_profiles_and_scenarios_of_one_load_are_paired(tmp_path) -> None:
    slow, fast = (sl.simulate(serving(plan={"max_batched_tokens": tokens}), intervals=False) for tokens in (256, 2048))
    (tmp_path / "slow.json").write_text(json.dumps(slow.to_dict()))
    for found in (sl.compare(slow, fast), sl.compare(tmp_path / "slow.json", fast)):
        rows = {row.quantity: row for row in found.rows if row.level == "request"}
        assert rows["ttft_s.mean"].ratio == pytest.approx(fast.ttft_s["mean"] / slow.ttft_s["mean"])
        assert rows["ttft_s.mean"].verdict == "faster"
        assert "100 matched requests" in found.requests
        assert found.faster is None
        assert not found.warnings


def test_requests_that_one_result_lacks_are_told(tmp_path) -> None:
    whole, partly = (sl.simulate(serving(plan=plan), intervals=False) for plan in ({}, {"max_concurrent_requests": 3}))
    assert partly.refused
    (tmp_path / "partly.json").write_text(json.dumps(partly.to_dict()))
    (said,) = sl.compare(whole, tmp_path / "partly.json").warnings
    missing = sum(partly.refused.values())
    assert said.startswith(f"{tmp_path}/partly.json lacks {missing} of 100 requests ({missing} ")
    assert not sl.compare(partly, partly).warnings


def test_a_result_without_answers_is_refused_with_its_reason(tmp_path) -> None:
    nothing = sl.simulate(serving(count=5, prompt_tokens=200_000), intervals=False)
    (tmp_path / "nothing.json").write_text(json.dumps(nothing.to_dict()))
    with pytest.raises(sl.InputError, match=r"nothing.json' answered no request \(5 longer than the context\)"):
        sl.compare(tmp_path / "nothing.json", tmp_path / "nothing.json")


def test_percentiles_with_a_point_are_read_from_a_table(tmp_path) -> None:
    found = sl.simulate(serving(slo={"ttft": "1 s", "percentile": 99.9}))
    (tmp_path / "found.csv").write_text(to_csv([found]))
    rows = sl.compare(tmp_path / "found.csv", found).rows
    assert rows
    assert {row.verdict for row in rows} == {"no difference found"}


def test_another_load_is_compared_by_its_figures_alone() -> None:
    found = sl.compare(sl.simulate(serving(), intervals=False), sl.simulate(serving(output_tokens=64), intervals=False))
    assert {row.level for row in found.rows} >= {"step", "phase"}
    assert not [row for row in found.rows if row.level == "request"]
    assert not found.requests
