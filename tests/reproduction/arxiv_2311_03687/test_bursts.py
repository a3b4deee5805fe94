"""Findings on serving: which ratios judge them, and what the burst asks of each engine."""

from dataclasses import replace

import numpy as np
import pytest

from sightline.loading import load
from sightline.reproduction.arxiv_2311_03687 import bursts as findings
from sightline.reproduction.arxiv_2311_03687 import settings
from sightline.reproduction.arxiv_2311_03687.settings import (
    A800,
    DEPLOYMENT,
    LIGHTLLM,
    NOTHING,
    REPLICAS,
    REQUEST,
    RTX_3090,
    RTX_4090,
    SEVEN,
    SEVENTY,
    SPLIT,
    TGI,
    THIRTEEN,
    TOKENS,
    VLLM,
    Burst,
    burst,
    served,
)
from sightline.reproduction.asking import Ask


@pytest.fixture(scope="module")
def ask():
    return Ask(small=True)


@pytest.fixture
def bursts(monkeypatch):
    """Bursts that are all alike, but for those that a test changes: by platform, engine, model, deployment."""
    alike = Burst(tokens_per_s=100.0, latency_s=10.0, duration_s=20.0, latencies_s=np.linspace(1.0, 19.0, 10))
    changed = {}

    def one(_, platform, engine, model, way, **__):
        return replace(alike, **changed.get((platform, engine, model, way.name), {}))

    monkeypatch.setattr(settings, "burst", one)
    return changed


@pytest.fixture
def judged(ours):
    """The number that judges a finding with a deployment."""

    def of(finding, way):
        (place,) = [place for place, one in enumerate(finding(None)) if (way, TOKENS) == _taken(one)]
        return ours(finding, None)[place]

    def _taken(one):
        return tuple(of.choices[one.choices[of.name]] for of in (DEPLOYMENT, REQUEST))

    return of


@pytest.mark.parametrize(
    ("finding", "engine", "change"),
    [
        (findings.a25, TGI, {"tokens_per_s": 50.0}),
        (findings.a27, TGI, {"latency_s": 20.0}),
        (findings.a31, VLLM, {"latency_s": 5.0}),
    ],
)
def test_an_ordering_is_judged_by_the_case_that_speaks_against_it(judged, bursts, finding, engine, change):
    assert judged(finding, REPLICAS) == 1.0
    bursts[RTX_3090, engine, THIRTEEN, "replicas"] = change
    assert judged(finding, REPLICAS) == 0.5
    assert judged(finding, SPLIT) == 1.0


def test_lightllm_is_judged_by_the_lead_farthest_from_twice(judged, bursts):
    for model in (SEVEN, THIRTEEN, SEVENTY):
        bursts[A800, LIGHTLLM, model, "replicas"] = {"tokens_per_s": 190.0}
    bursts[A800, LIGHTLLM, SEVENTY, "replicas"] = {"tokens_per_s": 320.0}
    assert judged(findings.a26, REPLICAS) == pytest.approx(3.2)


def test_the_step_from_7b_to_70b_is_that_of_the_engine_where_it_is_most(judged, bursts):
    bursts[RTX_4090, TGI, SEVENTY, "one server"] = {"duration_s": 260.0, "latency_s": 130.0}
    assert judged(findings.a28, SPLIT) == pytest.approx(13.0)
    # The smallest step counts where the platforms' steps are compared: that of engines that show none.
    assert judged(findings.a32, SPLIT) == 1.0


def test_engines_are_as_alike_as_the_case_where_they_are_least(judged, bursts):
    bursts[RTX_4090, VLLM, SEVENTY, "replicas"] = {"tokens_per_s": 40.0}
    assert judged(findings.a39, REPLICAS) == pytest.approx(2.5)
    bursts[A800, VLLM, SEVEN, "one server"] = {"tokens_per_s": 1.0}
    assert judged(findings.a39, SPLIT) == 1.0


def test_the_a800_has_to_be_ahead_in_throughput_and_in_latency(judged, bursts):
    for engine, model in [(engine, model) for engine in (VLLM, LIGHTLLM, TGI) for model in (SEVEN, THIRTEEN, SEVENTY)]:
        bursts[A800, engine, model, "replicas"] = {"tokens_per_s": 300.0, "latency_s": 8.0}
    assert judged(findings.a29, REPLICAS) == pytest.approx(10.0 / 8.0)


def test_a_model_that_does_not_fit_leaves_a_finding_without_a_number(ours, monkeypatch):
    monkeypatch.setattr(settings, "burst", lambda *_, **__: NOTHING)
    assert {one for finding in findings.FINDINGS.values() for one in ours(finding, None)} == {None}


@pytest.mark.parametrize("way", [choice.value for choice in DEPLOYMENT], ids=lambda way: way.name)
@pytest.mark.parametrize("model", [SEVEN, THIRTEEN, SEVENTY])
def test_all_gpus_serve_with_the_releases_of_the_study_s_month(way, model):
    plan = load(served(RTX_4090, VLLM, model, way)).plan
    assert plan.tensor_parallel * plan.replicas * plan.data_parallel == 8
    assert plan.engine.version == "0.0" or plan.engine.version.startswith("0.2")


@pytest.mark.parametrize("engine", [VLLM, LIGHTLLM, TGI])
def test_every_request_of_the_burst_is_answered(ask, engine):
    found = burst(ask, RTX_4090, engine, SEVEN, REPLICAS)
    assert found.latencies_s.size == 100
    assert not np.isnan(found.latencies_s).any()
    assert found.latencies_s.max() == pytest.approx(found.duration_s, rel=0.05)


def test_the_distribution_of_a_burst_rises_to_its_last_answer(bursts):
    bursts[A800, LIGHTLLM, SEVENTY, "one server"] = {"latencies_s": np.array([40.0, 10.0, 20.0, 30.0])}
    case = ("A800", "70B", "one server", "LightLLM")
    rows = findings.latency(None).answer.rows
    found = [row["latency_s"] for row in rows if tuple(row[key] for key in findings.CASE) == case]
    assert len(found) == len(findings.SHARES)
    assert found == sorted(found)
    assert found[-1] == 40.0


def test_the_table_of_throughput_has_every_case_once(bursts):
    bursts[A800, TGI, SEVEN, "replicas"] = {"tokens_per_s": 7.0}
    rows = list(findings.throughput(None).answer.rows)
    cases = [tuple(row[key] for key in findings.CASE) for row in rows]
    assert len(set(cases)) == len(cases) == 4 * 3 * 2 * 3
    assert [row["tokens_per_s"] for row in rows].count(7.0) == 1
