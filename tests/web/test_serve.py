"""The view Serve without a browser: its form, its mistakes, and what its jobs leave."""

import csv
import json
import re
from html import unescape

import pytest
from starlette.testclient import TestClient

from sightline.progress import SILENT
from sightline.web.jobs import Jobs
from sightline.web.request import Asked
from sightline.web.serve_view import CAPACITY, CURVE, job
from sightline.web.serve_view import simulate_loads as work
from sightline.web.server import create_app

SMALL = {
    "model": "qwen2.5-0.5b",
    "cluster": "1x h100-sxm-80gb",
    "workload.task": "serve",
    "workload.requests.count": "40",
    "workload.requests.prompt_tokens": "64",
    "workload.requests.output_tokens": "8",
    "workload.arrival.process": "poisson",
    "workload.arrival.rate": "20",
    "intervals": "no",
}


def found(**values):
    """What the job of an address finds."""
    request = job(Asked({**SMALL, **values}))
    return work(request.mapping, request.options, SILENT)


@pytest.mark.parametrize(
    ("values", "begins"),
    [({}, True), ({"find": CAPACITY, "workload.slo.ttft": "1 s"}, False), ({"workload.requests.count": "2001"}, False)],
)
def test_small_loads_begin_by_themselves(client, values, begins):
    fragment = client.get("/serve", params={**SMALL, **values, "fragment": "1"}).text
    assert ("data-begins" in fragment, "data-job" in fragment) == (begins, True)


def test_a_model_and_a_cluster_are_enough(client):
    page = client.get("/serve", params={"model": "llama-3.1-8b", "cluster": "1x h100-sxm-80gb"}).text
    assert 'data-state="new"' in page
    assert 'class="problem"' not in page


def test_a_load_has_percentiles_and_a_row_for_each_request():
    result = found(**{"workload.slo.ttft": "1 s"})
    assert "p99" in result["piece"]["html"]
    assert "meet every limit" in result["piece"]["html"]
    rows = list(csv.DictReader(result["files"]["requests.csv"].splitlines()))
    assert len(rows) == 40
    assert all(row["status"] == "completed" for row in rows)
    assert {"serve-latency", "serve-over-time"} <= result["piece"]["charts"].keys()


def test_the_highest_rate_has_a_curve_and_its_users():
    values = {"find": CAPACITY, "workload.slo.tpot": "20 ms", "workload.slo.ttft": "100 ms", "think_time": "10 s"}
    result = found(**values)
    assert result["document"]["capacity_requests_per_s"] > 20
    assert "curve-throughput-latency" in result["piece"]["charts"]
    assert re.search(r"[\d,]+ users with 10", result["piece"]["html"])


def test_several_rates_are_a_curve():
    result = found(find=CURVE, rates="5, 10, 20", **{"workload.slo.ttft": "1 s"})
    assert [one["scenario"]["workload"]["arrival"]["rate"] for one in result["document"]] == [5, 10, 20]
    assert "met by 3 of 3 loads" in result["piece"]["html"]
    assert any(name.endswith("throughput-latency") for name in result["piece"]["charts"])
    assert "rate 20" in result["piece"]["html"]
    assert "rate 20.0" not in result["piece"]["html"]
    assert "<h1" not in result["piece"]["html"]


@pytest.mark.parametrize(
    ("values", "files"), [({}, ["answer.json", "requests.csv"]), ({"find": CURVE, "rates": "5, 10"}, ["answer.json"])]
)
def test_an_answer_names_the_files_that_it_has(tmp_path, values, files):
    jobs = Jobs(tmp_path)
    result = jobs.folder.path(job(Asked({**SMALL, **values})).id, "result")
    result.write_text(json.dumps(found(**values)), encoding="utf-8")
    client = TestClient(create_app(jobs), base_url="http://127.0.0.1:8750")
    shown = client.get("/serve", params={**SMALL, **values, "fragment": "1"}).text
    jobs.close()
    assert re.findall(r'download="([^"]+)"', shown) == files


def test_several_clients_are_a_curve_of_a_closed_loop():
    closed = {key: value for key, value in SMALL.items() if key != "workload.arrival.rate"}
    values = {"workload.arrival.process": "closed", "workload.arrival.concurrency": "2", "find": CURVE}
    request = job(Asked({**closed, **values, "rates": "1, 2, 4"}))
    assert request.mapping["sweep"] == {"workload.arrival.concurrency": [1, 2, 4]}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("workload.arrival.rate", "fast", "workload.arrival.rate is 'fast'"),
        ("workload.requests.count", "1000000", "up to 100,000"),
        ("workload.slo.percentile", "200", "workload.slo.percentile"),
        ("think_time", "long", "think_time is 'long'"),
        ("plan.max_sequences", "0", "plan.max_sequences is 0"),
    ],
)
def test_a_mistake_is_shown_next_to_its_field(client, field, value, said):
    answer = client.get("/serve", params={**SMALL, field: value, "fragment": "1"})
    assert answer.status_code == 422
    assert said in unescape(answer.text)
    assert re.search(f'data-problem="{re.escape(field)}"', answer.text)


def test_the_highest_rate_needs_a_promise(client):
    answer = client.get("/serve", params={**SMALL, "find": CAPACITY, "fragment": "1"})
    assert answer.status_code == 422
    assert "workload.slo is missing" in answer.text


def test_other_tasks_bring_only_their_model_and_cluster(client):
    page = client.get("/predict", params={"model": "llama-3-8b", "cluster": "8x h100-sxm-80gb"}).text
    (link,) = re.findall(r'href="/serve\?([^"]*)"', page)
    assert "model=llama-3-8b" in link
    assert "workload" not in link
