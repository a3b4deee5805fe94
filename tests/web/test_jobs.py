"""Long work in processes of its own."""

import os
import signal

import pytest
from page_checks import running
from waiting import PATIENCE_S, until

from sightline.web.jobs import Jobs, Request
from sightline.web.security import Refusal

pytestmark = pytest.mark.slow
QUICK = {
    "model": "llama-3-8b",
    "cluster": "1x h100-sxm-80gb",
    "workload": {"task": "serve", "requests": {"count": 4, "prompt_tokens": 16, "output_tokens": 4}},
}
LONG = {
    "model": "llama-3-70b",
    "cluster": "1024x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 8192, "global_batch": 2048},
}


@pytest.fixture
def jobs(tmp_path):
    found = Jobs(tmp_path)
    yield found
    found.close()


def ended(jobs, identifier):
    """The job once it has ended."""
    return until(lambda: (job := jobs.get(identifier)).ended and job)


def test_a_job_is_done_once_and_kept(jobs, tmp_path):
    request = Request(kind="simulate", mapping=QUICK, options={"intervals": False})
    first = jobs.start(request)
    assert first.state == "waiting"
    assert jobs.start(request).id == first.id
    assert ended(jobs, first.id).state == "done"
    result = jobs.found(first.id)
    assert result["document"]["completed"] == 4
    assert "<table>" in result["piece"]["html"]
    again = Jobs(tmp_path)
    assert again.start(request).state == "done"
    again.close()


def test_work_is_listed_until_somebody_saw_how_it_ended(jobs):
    request = Request(kind="simulate", mapping=QUICK, options={"intervals": False})
    job = jobs.start(request, name="Serve: llama-3-8b", address="/serve?model=llama-3-8b")
    assert [one.name for one in jobs.listed()] == ["Serve: llama-3-8b"]
    jobs.look_at(job.id)
    assert jobs.listed()
    ended(jobs, job.id)
    assert [one.for_page()["words"] for one in jobs.listed()] == ["done"]
    jobs.look_at(job.id)
    assert jobs.listed() == []
    assert [one.state for one in jobs.listed([job.id, "unknown"])] == ["done"]


def test_work_that_nobody_waits_for_is_stopped_and_forgotten(jobs):
    job = jobs.start(Request(kind="plan", mapping=LONG), name="Plan", address="/plan")
    jobs.cancel(job.id, forget=True)
    ended(jobs, job.id)
    assert jobs.listed() == []


def test_copies_of_a_process_that_has_loaded_everything_do_the_work(tmp_path):
    copies = Jobs(tmp_path, prepared=True)
    copies.prepare()
    job = copies.start(Request(kind="simulate", mapping=QUICK, options={"intervals": False}))
    assert ended(copies, job.id).state == "done"
    copies.close()


def test_a_mistake_is_a_sentence(jobs):
    job = jobs.start(Request(kind="plan", mapping={"model": "lama-3-8b"}))
    job = ended(jobs, job.id)
    assert (job.state, job.was_refused) == ("failed", True)
    assert any("did you mean 'llama-3-8b'" in problem for problem in job.problems)


def test_a_job_that_is_stopped_keeps_what_it_found(jobs, tmp_path, monkeypatch):
    monkeypatch.setattr("sightline.web.jobs.MOST_STOPPING_S", PATIENCE_S)
    job = jobs.start(Request(kind="plan", mapping=LONG))
    until(lambda: jobs.get(job.id).stage.done or jobs.get(job.id).ended)
    assert jobs.cancel(job.id).state == "stopping"
    assert ended(jobs, job.id).state == "cancelled"
    partial = jobs.found(job.id)
    assert partial["stopped"]
    assert partial["document"]["stopped"]
    assert partial["document"]["evaluated"] > 0
    again = Jobs(tmp_path)
    assert again.get(job.id).state == "cancelled"
    again.close()
    assert jobs.start(Request(kind="plan", mapping=LONG)).state == "waiting"
    assert jobs.found(job.id) is None


def test_work_that_does_not_stop_is_ended(jobs, monkeypatch):
    monkeypatch.setattr("sightline.web.jobs.MOST_STOPPING_S", 0)
    job = jobs.start(Request(kind="plan", mapping=LONG))
    until(lambda: jobs.get(job.id).state != "waiting")
    jobs.cancel(job.id)
    assert ended(jobs, job.id).state == "cancelled"
    assert jobs.found(job.id) is None


def test_too_much_is_refused(jobs):
    requests = [Request(kind="plan", mapping=LONG | {"name": f"batch {batch}"}) for batch in range(32)]
    with pytest.raises(Refusal, match="too much work"):
        list(map(jobs.start, requests))


def test_a_killed_server_loses_nothing_that_is_finished(tmp_path):
    import httpx2

    environment = {"SIGHTLINE_JOBS": str(tmp_path)}
    with running(environment=environment) as (address, process):
        quick = {"scenario": QUICK, "options": {"intervals": False}}
        done = httpx2.post(f"{address}/api/v1/simulate", json=quick, timeout=PATIENCE_S).json()
        with httpx2.stream("GET", f"{address}/api/v1/jobs/{done['id']}/events", timeout=PATIENCE_S) as events:
            assert '"state": "done"' in list(events.iter_lines())[-2]
        cut = httpx2.post(f"{address}/api/v1/plan", json=LONG, timeout=PATIENCE_S).json()
        os.kill(process.pid, signal.SIGKILL)
    with running(environment=environment) as (address, _), httpx2.Client(timeout=PATIENCE_S) as client:
        kept = f"{address}/api/v1/jobs"
        assert client.get(f"{kept}/{done['id']}").json()["result"]["completed"] == 4
        assert client.get(f"{kept}/{cut['id']}").json()["state"] in ("interrupted", "done")
        assert client.delete(f"{kept}/{cut['id']}").status_code == 200
