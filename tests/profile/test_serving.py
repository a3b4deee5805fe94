"""Metrics that are mappings: a serving profile's times have a mean and percentiles, under dotted keys."""

from types import SimpleNamespace

import pytest
from generation_scenarios import generation

from sightline.answers import several, summary
from sightline.explanation.reading import side_of_result
from sightline.profile import SERVING, Profile
from sightline.profile.metrics import metric_of
from sightline.profile.results import answer_to_dict, figure_of

ASKED = generation()
SERVED = SimpleNamespace(
    name="",
    model=ASKED.model,
    cluster=ASKED.cluster,
    plan=ASKED.plan,
    warnings=(),
    workload=SimpleNamespace(task="serve"),
)


def served(ttft_s: float = 0.5, **changes: object) -> Profile:
    times = {"mean": ttft_s, "p50": ttft_s, "p90": 2.0 * ttft_s, "p99": 3.0 * ttft_s}
    figures = {
        "ttft_s": times,
        "tpot_s": dict.fromkeys(times, 0.01),
        "latency_s": {key: 1.0 + s for key, s in times.items()},
        "output_tokens_per_s": 100.0,
        "requests_per_s": 1.0,
        "goodput_requests_per_s": 1.0,
        "completed": 10,
        "refused": {"queue full": 2},
        "queue_s": 0.1,
        "interval": {"ttft_s.p90": (0.9, 1.1), "latency_s.mean": (1.4, 1.6)},
        "phases": {"queue": 0.1, "prefill": 0.4, "decode": 1.0},
        "memory_bytes": {"weights": 1e10, "total": 7e10},
        "fits": True,
    }
    return Profile(scenario=SERVED, source="predicted", **{**figures, **changes})


def test_a_part_of_a_metric_is_a_figure():
    profile = served()
    assert (profile.figure("ttft_s.p90"), profile.figure("refused.queue full"), profile.whole_s) == (1.0, 2, 1.5)
    assert profile.figure("refused.other") is None
    assert profile.figure("itl_s.p90") is None
    assert SERVING.figures["ttft_s.p90"].label == "TTFT p90"
    assert SERVING.figures["ttft_s.mean"].label == "mean TTFT"
    assert SERVING.times == ("ttft_s.mean", "tpot_s.mean", "latency_s.mean")


def test_tables_show_parts_of_metrics():
    profile = served(goodput_requests_per_s=None)
    assert "mean TTFT 500 ms" in summary.speeds(profile)
    assert not [said for said in summary.speeds(profile) if "goodput" in said]
    cells = {column.key: column.cells for column in summary.compared([profile, served(1.0)])}
    assert cells["ttft_s.p90"] == ["1.00 s", "2.00 s"]
    assert cells["goodput_requests_per_s"] == ["-", "1.00"]
    assert summary.interval_of(profile, "latency_s.mean") == "1.40 to 1.60 s"


def test_results_are_ordered_by_parts_of_metrics():
    profiles = [served(1.0), served(0.25), served(0.5)]
    assert several.ranked(profiles, key="ttft_s.p90") == [1, 2, 0]


def test_parts_are_found_in_results_and_in_lines_of_csv():
    assert figure_of({"ttft_s": {"p90": 2.0}}, "ttft_s.p90") == 2.0
    assert figure_of({"ttft_s.p90": 2.0}, "ttft_s.p90") == 2.0
    assert figure_of({"latency_s": {"mean": 2.0}}, "latency_s") is None
    assert figure_of({"ttft_s": 2.0}, "ttft_s") == 2.0


@pytest.mark.parametrize("scenario", [{}, {"workload": {"task": "serve"}}])
def test_stored_results_are_compared_by_their_parts(scenario):
    side = side_of_result(answer_to_dict(served()) | {"source": "measured"}, "a run", scenario=scenario)
    assert side.kind is SERVING
    assert side.figures["ttft_s.mean"] == 0.5
    assert metric_of("ttft_s.mean").label == "mean TTFT"
    assert not side.is_bare
