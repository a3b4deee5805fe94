"""Traces that are sent: bounded, never opened by a name of the request, and gone when their job has ended."""

from pathlib import Path
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient
from waiting import until

from sightline.errors import InputError
from sightline.web import opened
from sightline.web.jobs import Jobs
from sightline.web.server import create_app

TRACE = Path(__file__).parents[2] / "examples" / "traces" / "slow-loader.json.gz"
SCENARIO = {
    "model": "qwen2.5-0.5b",
    "cluster": "1x a100-sxm-80gb",
    "workload.task": "pretrain",
    "workload.sequence_length": "512",
    "workload.global_batch": "4",
}


@pytest.fixture
def jobs(tmp_path):
    found = Jobs(tmp_path / "jobs")
    yield found
    found.close()


@pytest.fixture
def client(jobs):
    with TestClient(create_app(jobs), base_url="http://127.0.0.1:8750", follow_redirects=False) as found:
        yield found


def explained(client, address):
    """What the page shows once the job has ended."""

    def shown():
        text = client.get(f"{address}&fragment=1").text
        return text if not any(f'data-state="{state}"' in text for state in ("waiting", "running")) else None

    return until(shown)


@pytest.mark.slow
def test_a_trace_is_explained_and_not_kept(client, jobs):
    sent = client.post("/open?name=mine.json.gz", content=TRACE.read_bytes())
    assert sent.status_code == 202
    shown = explained(client, sent.json()["address"])
    assert "Trace mine.json.gz" in shown
    assert "num_workers" in shown
    assert not list(jobs.folder.place.glob("*.sent*"))
    # The link shows it again; once it is forgotten, the file has to be sent again.
    for path in jobs.folder.place.glob("*.result.json"):
        until(lambda ended=path: jobs.get(ended.name.partition(".")[0]).state == "done")
        path.unlink()
    began = client.post(sent.json()["address"].replace("/explain?", "/explain/start?"), headers={"accept": "*/*"})
    assert began.status_code == 409
    assert "choose the file again" in began.text


@pytest.mark.slow
def test_a_trace_of_a_scenario_predicts_its_changes(client):
    asked = {"of": urlencode(SCENARIO), opened.OF_SCENARIO: "yes", "name": "t.json.gz"}
    sent = client.post("/open", params=asked, content=TRACE.read_bytes())
    shown = explained(client, sent.json()["address"])
    assert "What to change" in shown
    # A step that is faster than the device at its peak is of another scenario.
    larger = {"model": "llama-3-70b", "cluster": "32x a100-sxm-80gb", "workload.global_batch": "512"}
    other = {**asked, "of": urlencode({**SCENARIO, **larger})}
    sent = client.post("/open", params=other, content=TRACE.read_bytes())
    assert "check the scenario" in explained(client, sent.json()["address"])


def test_traces_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setenv(opened.VARIABLE, "1 MB")
    jobs = Jobs(tmp_path)
    with TestClient(create_app(jobs), base_url="http://127.0.0.1:8750") as client:
        found = client.post("/open?name=t.json", content=b" " * 1_000_001)
        assert found.status_code == 413
        assert "1,000,000 bytes" in found.text
    jobs.close()


def test_other_sites_may_send_none(client):
    headers = {"sec-fetch-site": "cross-site"}
    assert client.post("/open?name=t.json", content=b"{}", headers=headers).status_code == 403


def test_a_wrong_bound_is_told(monkeypatch):
    monkeypatch.setenv(opened.VARIABLE, "many")
    with pytest.raises(InputError, match=opened.VARIABLE):
        opened.most_bytes()
