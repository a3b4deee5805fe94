"""Served loads as text, pictures and traces."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from drawn_charts import as_drawn
from rates_chart import RateMeasured, measured_rates_chart
from rendered import profiles_page as page
from rendered import text
from served_outcomes import outcome
from serving_scenarios import serving

from sightline.answers.profile import fits
from sightline.answers.several import profiles_outline
from sightline.charts.drawing import PHONE, SCREEN
from sightline.charts.index import charts_of
from sightline.charts.load_charts import replay_chart, serving_chart
from sightline.charts.profile_charts import single_chart
from sightline.chrome.load_trace import MOST_ITERATIONS, load_trace, serving_trace
from sightline.profile import Profile
from sightline.simulation.outcome import NO_ROOM, Lifetimes
from sightline.simulation.results.summary import answered, figures_of, request_table, summary_of
from sightline.simulation.simulate import simulate

KV = [(0.5 * i, 0.5 * i + 0.5, 100 * (i % 10)) for i in range(200)]


def served(
    rate: float = 2.0, *, process: str = "poisson", refused: int = 0, percentile: float = 90, **changes: object
) -> Profile:
    arrival = {"process": process} | ({"concurrency": int(rate)} if process == "closed" else {"rate": rate})
    scenario = serving(arrival=arrival, slo={"ttft": "1 s", "tpot": "50 ms", "percentile": percentile})
    queue_s = np.random.default_rng(3).exponential(0.1 * rate, 100)
    status = [NO_ROOM] * refused + [0] * (100 - refused)
    run = outcome(np.arange(100) / rate, queue_s=queue_s, gap_s=0.02, kv=KV, status=status)
    figures = figures_of(run, scenario.workload.slo)
    memory = {"weights": 1.6e10, "kv_cache": 5e10, "framework": 2e9, "total": 6.8e10}
    limits = {"compute": 0.2, "memory": 0.5, "network": 0.0, "host": 0.1, "bubble": 0.0}
    about = {"memory_bytes": memory, "fits": True, "limits": limits, "energy_j": 3e4, "outcome": run}
    return Profile(scenario=scenario, source="predicted", **figures | about | changes)


def shown(profiles: list[Profile], width: int) -> str:
    return text(profiles_outline(profiles), width)


@pytest.mark.parametrize("width", [60, 80])
def test_one_load_in_text(width):
    limited = "requests wait 40 % of the busy time, mostly because the KV cache is full"
    text = shown([served(limited_by=limited, refused=3)], width)
    assert all(len(line) <= width for line in text.splitlines())
    words = " ".join(text.split())
    for said in (
        "time to first token",
        "p99",
        "97 of 100 completed; 3 larger than the KV cache",
        "(TTFT 1 s, TPOT 50 ms)",
        "goodput",
        limited[1:],
    ):
        assert said in words


def test_the_cache_that_takes_what_is_left_is_no_need():
    (found,) = fits(served())
    assert found.says.startswith("yes · 16.8 of ")
    assert "46.6 GiB" in found.detail
    unfit = served(memory_bytes={"weights": 1.6e11, "kv_cache": 0.0, "total": 1.6e11}, fits=False)
    (found,) = fits(unfit)
    assert (found.value, "149.0 of " in found.detail, "cache" in found.detail) == ("no", True, False)


def test_loads_of_several_rates_are_lines_of_a_table():
    text = shown([served(1.0), served(2.0), served(4.0)], 80)
    assert "TPOT" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_load_without_times_is_told():
    found = served()
    empty = dict.fromkeys(("mean", "p50", "p90", "p99"))
    text = shown(
        [found.replace(completed=0, refused={"queue full": 100}, ttft_s=empty, latency_s=empty, phases={})], 80
    )
    assert "0 of 100 completed; 100 queue full" in text


def test_one_load_is_drawn_over_time():
    spec = serving_chart([served()])
    course, latencies = spec["vconcat"]
    assert course["vconcat"][0]["title"]["text"] == "Requests and KV cache over time"
    titles = [panel["title"]["text"] for panel in latencies["hconcat"]]
    assert titles == ["Time to first token", "Time per output token", "Latency"]


def test_latencies_are_drawn_once_on_the_page_of_a_load():
    charts = {chart.name: json.dumps(chart.wide) for chart in charts_of(served())}
    assert "over-time" in charts
    assert [name for name, drawn in charts.items() if "% of the requests" in drawn] == ["latency"]


def test_replicas_that_come_and_go_are_told_and_drawn():
    run = replace(
        served().outcome,
        lifetimes=Lifetimes(
            replica=np.array([0, 1]),
            started_s=np.array([-np.inf, 20.0]),
            serves_s=np.array([-np.inf, 25.0]),
            asked_to_stop_s=np.array([np.inf, 40.0]),
            stopped_s=np.array([np.inf, 42.0]),
        ),
    )
    found = served(outcome=run, replicas={"mean": 1.44, "min": 1, "max": 2}, replica_s=72.0)
    said = "1 to 2 replicas, 1.44 on average: 72 replica-seconds"
    assert said in " ".join(shown([found], 80).split())
    assert said in page([found])
    drawn = serving_chart([found])
    panel = drawn["vconcat"][0]["vconcat"][-1]
    assert panel["layer"][0]["encoding"]["y"]["title"] == "replicas"
    assert {row["replicas"] for row in values_of(drawn, panel["layer"][0])} >= {1.0, 2.0}


@pytest.mark.parametrize("process", ["poisson", "closed"])
def test_loads_that_differ_in_their_rate_are_a_curve(process):
    spec = serving_chart([served(rate, process=process) for rate in (1.0, 2.0, 4.0)])
    assert [panel["title"]["text"] for panel in spec["hconcat"]] == ["Time to first token", "Time per output token"]


def test_loads_that_differ_otherwise_are_no_curve():
    assert serving_chart([served(1.0), served(2.0), served(2.0)]) is None


def test_the_trace_has_every_iteration_and_request():
    run = served().outcome
    text, cut = serving_trace(run, {"scenario": "x"})
    events = json.loads(text)["traceEvents"]
    assert cut == ""
    assert sum(event["ph"] == "X" for event in events) == len(KV)
    begun = [event["id"] for event in events if event["ph"] == "b" and event["name"].startswith("request")]
    assert begun == list(range(100))
    assert sum(event["ph"] == "b" for event in events) == sum(event["ph"] == "e" for event in events)
    assert {event["name"] for event in events if event["ph"] == "C"} == {"running", "waiting", "KV cache %"}


def test_a_long_trace_is_cut_and_says_so():
    run = outcome([0.0, 1.0], kv=[(0.01 * i, 0.01 * i + 0.01, 100) for i in range(MOST_ITERATIONS + 100)])
    text, cut = serving_trace(run, {})
    assert re.findall(r"[\d,]+", cut)[:3] == ["500", "50,000", "5,000"]
    assert json.loads(text)["otherData"]["cut"] == cut


@pytest.fixture(scope="module")
def trace():
    """The trace of a load on two-way tensor parallel replicas, with prompts beside decoding sequences."""
    arrival = {"process": "poisson", "rate": 40.0}
    profile = simulate(
        serving(arrival=arrival, cluster="2x h100-sxm-80gb", plan={"tensor_parallel": 2}), intervals=False
    )
    text, said = load_trace(profile)
    return profile, json.loads(text), said


def test_iterations_of_a_trace_enclose_parts_and_modules(trace):
    profile, document, said = trace
    assert said == ""
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert document["otherData"]["iterations_with_modules"] == profile.outcome.iterations.start_s.size
    mixed = next(event for event in slices if event["name"] == "prefill and decode")
    inside = [s for s in slices if s["ts"] >= mixed["ts"] and s["ts"] + s["dur"] <= mixed["ts"] + mixed["dur"] + 1e-3]
    parts = [s["name"] for s in inside if s["cat"] == "part"]
    assert parts == ["prefill", "decode"]
    assert {"mlp", "attention core", "qkv", "head"} <= {s["name"] for s in inside if s["cat"] == "module"}
    own = [s for s in inside if s["cat"] in ("module", "communication") or s["name"].startswith("host")]
    assert sum(s["dur"] for s in own) == pytest.approx(mixed["dur"], abs=0.01)


def test_communication_of_a_load_s_trace_has_a_track_of_its_own(trace):
    _, document, _ = trace
    named = {event["tid"]: event["args"]["name"] for event in document["traceEvents"] if event["name"] == "thread_name"}
    sent = [event for event in document["traceEvents"] if event["name"] == "nccl: all_reduce"]
    assert sent
    assert {named[event["tid"]] for event in sent} == {"communication"}


def test_slices_of_a_load_s_trace_nest(trace):
    _, document, _ = trace
    ends = {}
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            open_ends = ends.setdefault((event["pid"], event["tid"]), [])
            while open_ends and open_ends[-1] <= event["ts"] + 1e-3:
                open_ends.pop()
            end = event["ts"] + event["dur"]
            assert not open_ends or end <= open_ends[-1] + 1e-3
            open_ends.append(end)


def test_what_encloses_an_equally_long_slice_of_a_load_comes_before_it(trace):
    _, document, _ = trace
    depth = {"iteration": 0, "part": 1, "module": 2}
    places = {}
    for event in document["traceEvents"]:
        if event.get("cat") in depth and event["dur"] > 0:
            place = event["pid"], event["tid"], event["ts"], event["dur"]
            assert places.get(place, 0) <= depth[event["cat"]]
            places[place] = depth[event["cat"]]


def test_a_trace_says_of_which_iterations_it_draws_modules(trace, monkeypatch):
    profile, _, _ = trace
    monkeypatch.setattr("sightline.chrome.load_trace.MOST_EVENTS", 200)
    text, said = load_trace(profile)
    drawn = json.loads(text)["otherData"]["iterations_with_modules"]
    assert re.findall(r"\d+", said) == [str(drawn), str(profile.outcome.iterations.start_s.size)]


def test_the_table_of_requests_has_times_of_completed_ones():
    table = request_table(outcome([0.0, 1.0], status=[0, NO_ROOM], output_tokens=[1, 5]))
    assert table["status"].to_list() == ["completed", "larger than the KV cache"]
    assert table["ttft_s"].to_list() == [0.5, None]
    assert table["tpot_s"].to_list() == [None, None]
    assert table["latency_s"].to_list()[0] == pytest.approx(0.5)


def test_a_report_shows_a_run_and_a_curve() -> None:
    text = page([served()])
    assert "Requests and KV cache over time" in text
    assert "Latency distribution" in text
    assert all(f'<th scope="col" class="n">{name}</th>' in text for name in ("mean", "p50", "p90", "p99"))
    several = page([served(rate) for rate in (1.0, 2.0, 4.0)])
    assert "answered requests per second" in several


def test_a_report_has_no_card_without_a_value_and_no_line_through_a_text() -> None:
    profile = served(preemptions=0)
    figures = page([profile]).partition("All figures")[2].partition("</table>")[0]
    assert "goodput" in figures
    assert "<td>preemptions</td>" not in figures
    assert '<td class="n">-</td>' not in figures
    assert '<dd class="value">memory bandwidth <small>62 %</small></dd>' in page([profile])
    for room in (SCREEN, PHONE):
        drawn = single_chart(profile, room=room)
        whole, memory = drawn["vconcat"][0], drawn["vconcat"][-1]
        assert whole["layer"][0]["encoding"]["x"]["title"].endswith("per request")
        bars, texts, rule, *_ = memory["layer"]
        (line,) = [row["usable_bytes_drawn"] for row in values_of(drawn, rule)]
        begins = [row["end_bytes_drawn"] for row in values_of(drawn, texts)]
        pixel = bars["encoding"]["x"]["scale"]["domain"][1] / room.panel
        assert not [begin for begin in begins if begin < line < begin + room.text * pixel]


def test_the_percentile_of_the_objective_is_shown_and_drawn() -> None:
    of_objective = [served(rate, percentile=95) for rate in (1.0, 2.0, 4.0)]
    assert of_objective[0].ttft_s["p95"] == pytest.approx(np.percentile(answered(of_objective[0].outcome).ttft_s, 95))
    assert "p95" in shown(of_objective[:1], 60)
    assert '<th scope="col" class="n">p95</th>' in page(of_objective[:1])
    assert "95 %" in json.dumps(serving_chart(of_objective))
    lines = shown(of_objective, 100)
    assert "p95" in lines
    assert "p90" not in lines
    differ = shown([served(percentile=95), served(percentile=99)], 100)
    assert "p90" in differ


def test_a_load_without_rows_is_drawn_alike() -> None:
    scenario = serving(count=400)
    kept = simulate(scenario, intervals=False)
    without = simulate(scenario, intervals=False, streamed=True)
    assert without.outcome is None
    drawn = [serving_chart([one]) for one in (kept, without)]
    titles = [json.dumps(spec).count("Requests and KV cache over time") for spec in drawn]
    assert titles == [1, 1]
    running = [one.means("running") for one in (summary_of(kept.outcome).moments, without.summary.moments)]
    assert running[0] == pytest.approx(running[1], abs=1e-6)


def values_of(drawn: dict, layer: dict) -> list:
    data = layer.get("data") or drawn["data"]
    return as_drawn(drawn["datasets"][data["name"]] if "name" in data else data["values"], layer)


def test_measured_rates_are_points_and_simulated_ones_a_line_with_its_interval():
    rates = [
        RateMeasured(
            measured={"requests_per_s": rate, "ttft_s": 0.04, "tpot_s": 0.02, "latency_s": 0.4},
            simulated={"requests_per_s": rate, "ttft_s": 0.05, "tpot_s": 0.02, "latency_s": 0.3},
            interval={"ttft_s": (0.03, 0.06)},
            anchors=rate == 2.0,
        )
        for rate in (1.0, 2.0, 3.0)
    ]
    assert rates[0].error("ttft_s") == pytest.approx(0.25)
    drawn = measured_rates_chart(rates, "A server")
    first, *others = drawn["hconcat"]
    assert [len(panel["layer"]) for panel in (first, *others)] == [3, 2, 2]
    band, line, points = (values_of(drawn, layer) for layer in first["layer"])
    assert [(row["low_s_drawn"], row["high_s_drawn"]) for row in band] == [(30.0, 60.0)] * 3
    assert [row["time_s_drawn"] for row in line] == [50.0] * 3
    assert [(row["time_s_drawn"], row["anchor"]) for row in points] == [(40.0, False), (40.0, True), (40.0, False)]
    assert "hollow" in drawn["title"]["subtitle"][-1]


def test_a_server_that_answers_nothing_has_a_report_too() -> None:
    profile = simulate(serving(prompt_tokens=200_000), intervals=False)
    assert profile.completed == 0
    assert 'data-card="fits"' in page([profile])
    assert "Requests and KV cache over time" not in page([profile])


@pytest.mark.parametrize("room", [SCREEN, PHONE])
def test_a_replay_shows_every_request_and_both_spreads(room):
    profile = served()
    spec = replay_chart(profile.outcome, profile, room)
    panels = [panel for column in spec["hconcat" if room.side_by_side else "vconcat"] for panel in column["vconcat"]]
    assert len(panels) == 6
    texts = json.dumps(spec)
    assert texts.count('"simulated_s": ') == texts.count('"measured_s": ')
    assert texts.count('"measured_s": ') >= 3 * len(profile.outcome.status)
    assert '"line": "measured"' in texts
    assert '"line": "simulated"' in texts
