"""Watch: the list of jobs, one of them with its prediction and departures, while it runs and afterwards."""

import pytest

import sightline as sl

SCENARIO = {
    "name": "watched Llama",
    "model": "llama-3-8b",
    "cluster": "8x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 4096, "global_batch": 16},
    "plan": {"framework": "fsdp", "zero_stage": 3, "micro_batch": 1, "recompute": "full"},
}


@pytest.fixture(autouse=True)
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path / "runs"))


def watched(steps):
    """Watch a loop of some steps; return the id of its watch."""
    with sl.watch(SCENARIO, show=False, replan=False, every_s=0.01) as watch:
        for _ in range(steps):
            watch.step(loss=1.0)
        return watch.id


def test_without_a_job_the_page_says_how_to_watch_one(client):
    shown = client.get("/watch").text
    assert "no watched jobs yet" in shown
    assert "sl.watch(" in shown


def test_jobs_are_listed_and_open(client):
    name = watched(30)
    assert f'href="/watch?job={name}"' in client.get("/watch").text
    shown = client.get(f"/watch?job={name}&fragment=1").text
    assert "watched Llama" in shown
    assert "80 %" in shown
    assert "/runs?run=" in shown
    assert '"live":false' in shown


def test_a_job_that_runs_is_looked_at_again(client):
    with sl.watch(SCENARIO, show=False, replan=False, every_s=0.01) as watch:
        watch.step()
        shown = client.get(f"/watch?job={watch.id}&fragment=1").text
        assert "running for" in shown
        assert '"live":true' in shown


@pytest.mark.parametrize("job", ["nobody", "../../etc/passwd", "latest"])
def test_a_job_that_is_not_there_is_told(client, job):
    shown = client.get("/watch", params={"job": job, "fragment": 1})
    assert shown.status_code == 422
    assert "job: " in shown.text
