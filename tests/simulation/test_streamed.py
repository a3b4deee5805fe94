"""Loads of which no rows are kept come to what their rows would, and hand each request on once."""

import numpy as np
import pytest
from served_outcomes import work_of
from serving_scenarios import serving

from sightline.anchors.corrected import simulated
from sightline.progress import Progress
from sightline.simulation.load import load_of
from sightline.simulation.results.summary import figures_from, summary_of
from sightline.simulation.serve import serve_streamed
from sightline.simulation.server import server_of

COUNT = 3000
SLO = {"ttft": "200 ms", "tpot": "20 ms"}


@pytest.fixture(scope="module")
def scenario():
    lengths = {"distribution": "lognormal", "mean": 300, "cv": 1.0, "max": 2000}
    arrival = {"process": "poisson", "rate": 20}
    return serving(count=COUNT, prompt_tokens=lengths, output_tokens=20, arrival=arrival, slo=SLO)


@pytest.fixture(scope="module")
def server(scenario):
    return server_of(scenario)


def streamed(server, scenario, part=500, **how):
    slo = scenario.workload.slo
    return serve_streamed(load_of(scenario, part), server.deployment(scenario), slo, **how)


def test_figures_are_those_of_the_rows(server, scenario):
    kept = figures_from(summary_of(server.serve(scenario), scenario.workload.slo), scenario.workload.slo)
    found = figures_from(streamed(server, scenario), scenario.workload.slo)
    for key in ("completed", "preemptions", "refused", "good_share"):
        assert found[key] == kept[key]
    for key in ("requests_per_s", "output_tokens_per_s", "queue_s", "duration_s", "prefix_hit_rate"):
        assert found[key] == pytest.approx(kept[key])
    for key in ("ttft_s", "tpot_s", "latency_s"):
        assert found[key]["mean"] == pytest.approx(kept[key]["mean"])
        assert found[key]["p90"] == pytest.approx(kept[key]["p90"], rel=2e-3)


def test_every_request_is_handed_on_once(server, scenario):
    numbers, tokens = [], []

    def rows(of, piece):
        numbers.append(of)
        tokens.append(piece.requests.prompt_tokens)

    streamed(server, scenario, rows=rows)
    (whole,) = load_of(scenario, COUNT)
    found = np.concatenate(numbers)
    assert sorted(found) == list(range(COUNT))
    assert (np.concatenate(tokens) == whole.prompt_tokens[found]).all()


def test_the_rest_of_a_load_is_left_out_when_somebody_stops(server, scenario):
    progress = Progress(lambda _: progress.cancel(), every_s=0)
    assert 0 < streamed(server, scenario, progress=progress).totals.requests < COUNT


def test_a_load_of_nobody_has_no_figures(server, scenario):
    found = serve_streamed(iter(()), server.deployment(scenario))
    assert found.totals.requests == 0
    assert figures_from(found)["ttft_s"]["mean"] is None


def test_requests_are_counted_while_rows_are_kept(scenario):
    states = []
    simulated([scenario], Progress(states.append, every_s=0.0), intervals=False)
    assert {(state.what, state.total) for state in states} == {("simulating requests", COUNT)}
    assert [states[0].done, states[-1].done] == [0, COUNT]


def test_what_iterations_come_to_is_the_sum_of_their_rows(server, scenario):
    run = server.serve(scenario)
    (found,), (limits,), rows = run.work.sums, run.pools, run.iterations
    seconds, has_prompts = rows.end_s - rows.start_s, rows.prompt_tokens > 0
    for kind, chosen in zip(found, (~has_prompts, has_prompts), strict=True):
        assert kind["iterations"] == chosen.sum()
        assert kind["seconds"] == pytest.approx(seconds[chosen].sum())
        assert kind["decodes"] == rows.decodes[chosen].sum()
        assert kind["kv_token_s"] == pytest.approx((rows.kv_tokens * seconds)[chosen].sum())
        assert kind["waiting_s"] == pytest.approx(seconds[chosen & (rows.waiting > 0)].sum())
        assert kind["most_running"] == rows.running[chosen].max()
    moments = summary_of(run).moments
    lengths = np.diff(moments.edges_s)
    assert moments.means("kv_tokens") @ lengths == pytest.approx(rows.kv_tokens @ seconds)
    assert moments.end_s == rows.end_s.max()
    assert work_of(rows, limits).moments == pytest.approx(run.work.moments)
