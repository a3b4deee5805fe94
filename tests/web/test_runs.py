"""Runs & compare: the list, a run, comparisons; only runs of the store are ever opened."""

import pytest
from stored_runs import filled

from sightline.runs import open_store

pytestmark = pytest.mark.usefixtures("ids")


@pytest.fixture(scope="module")
def ids(tmp_path_factory):
    """A store with runs, and the ids of those of training."""
    place = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGHTLINE_RUNS", str(place))
        yield filled(place)[1]


def test_runs_are_listed_newest_first_and_open_by_their_names(client, ids):
    shown = client.get("/runs")
    assert shown.status_code == 200
    newest, oldest = shown.text.index("a faster step</a>"), shown.text.index("matmul</a>")
    assert newest < oldest
    assert f"/runs?run={ids[0]}" in shown.text
    for said in ("4 runs", "llama-2-7b", "out of memory", "it held 9 GB"):
        assert said in shown.text, said


def test_a_list_is_bounded(client, monkeypatch):
    monkeypatch.setattr("sightline.web.stored_views.MOST", 2)
    shown = client.get("/runs?fragment=1").text
    assert "newest 2 of 4 runs" in shown
    assert shown.count("<tr>") == 1 + 2


def test_a_run_shows_what_it_measured_and_what_leads_on(client, ids):
    shown = client.get(f"/runs?run={ids[0]}").text
    assert "A800" in shown
    assert f"/explain?run={ids[0]}" in shown
    assert f"/runs?run={ids[0]}&amp;with=predicted" in shown
    assert f'value="{ids[0]}" selected' in shown


def test_a_run_that_failed_says_why_and_offers_no_comparison(client):
    shown = client.get("/runs").text
    failed = shown.partition("it held 9 GB")[0].rpartition('href="')[2].partition('"')[0]
    page = client.get(f"{failed}&fragment=1").text
    assert "out of memory: it held 9 GB" in page
    assert "/explain?run=" not in page


def test_runs_are_compared_with_each_other_and_with_the_prediction(client, ids):
    for other in (ids[1], "predicted"):
        shown = client.get(f"/runs?run={ids[0]}&with={other}&fragment=1")
        assert shown.status_code == 200
        for said in ("B / A", "80 % interval", "B is", "time by phase", "time by module", "time by operator"):
            assert said.lower() in shown.text.lower(), said
        assert '"chart-' in shown.text


def test_runs_of_other_tasks_cannot_be_compared(client, ids):
    matmul = client.get("/runs").text.partition(">matmul</a>")[0].rpartition("run=")[2].partition('"')[0]
    shown = client.get(f"/runs?run={ids[0]}&with={matmul}&fragment=1")
    assert shown.status_code == 422


@pytest.mark.parametrize("asked", ["nope", "/etc/passwd", "../runs", "a-b.json", "scenario.yaml"])
@pytest.mark.parametrize("query", ["run={}", "run=latest&with={}", "run={}&with=predicted"])
def test_names_of_no_run_are_told_and_never_opened(client, asked, query):
    shown = client.get(f"/runs?{query.format(asked)}&fragment=1")
    assert shown.status_code == 422
    assert "no run" in shown.text


def test_an_unknown_run_is_told_with_the_nearest(client, ids):
    shown = client.get(f"/runs?run={ids[0][:-1]}x&fragment=1")
    assert shown.status_code == 422
    assert f"did you mean &#39;{ids[0]}&#39;" in shown.text


def test_an_empty_store_says_what_to_do_next(client, tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path / "none"))
    shown = client.get("/runs").text
    assert "has no runs yet" in shown
    assert "sightline measure" in shown
    assert "<select" not in shown


def test_a_watched_job_is_a_run_that_leads_to_its_watch(client, tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHTLINE_RUNS", str(tmp_path))
    watched = open_store().begin("my job", suite="watch").run.id
    assert ">running<" in client.get("/runs").text
    shown = client.get(f"/runs?run={watched}").text
    assert f"/watch?job={watched}" in shown
    assert '<dd class="bad">' not in shown
