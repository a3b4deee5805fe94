"""Explain on the page: the limits and the advice of the scenario in the address, or of a stored run."""

import html
import re

import pytest
from starlette.testclient import TestClient
from stored_runs import filled

SLOW = (
    "model=llama-2-7b&cluster=8x+a800-sxm-80gb&workload.task=pretrain&workload.sequence_length=2048"
    "&workload.global_batch=64&plan.zero_stage=3&plan.micro_batch=1&plan.recompute=full"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    """The id of a stored run of training."""
    place = tmp_path_factory.mktemp("explained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGHTLINE_RUNS", str(place))
        yield filled(place)[1][0]


def test_the_start_shows_limits_and_time(client: TestClient) -> None:
    shown = client.get("/explain")
    assert shown.status_code == 200
    for said in ("What limits the", "distance to limit", "Longest modules", "Time by phase, module and operator"):
        assert said in shown.text, said
    assert "sightline explain rank*.json" in shown.text


def test_time_unfolds_from_phases_to_operators(client: TestClient) -> None:
    shown = client.get(f"/explain?{SLOW}&fragment=1").text
    assert re.search(r"<details><summary>forward: [^<]+</summary><details><summary>mlp: ", shown)
    assert "operator and time" in shown


def test_advice_leads_to_its_prediction(client: TestClient) -> None:
    shown = client.get(f"/explain?{SLOW}&fragment=1").text
    links = [html.unescape(one) for one in re.findall(r'href="(/predict\?[^"]+)"', shown)]
    assert 2 <= len(links) <= 4  # the first one leads to the scenario itself
    assert client.get(f"{links[1]}&fragment=1").status_code == 200


def test_a_mistake_is_named(client: TestClient) -> None:
    shown = client.get("/explain?plan.pipeline=-3&fragment=1")
    assert shown.status_code == 422
    assert "plan.pipeline" in shown.text


def test_a_stored_run_is_explained_and_its_advice_is_predicted(client: TestClient, run: str) -> None:
    shown = client.get(f"/explain?run={run}")
    assert "a small step" in shown.text
    assert "measured" in shown.text
    assert f"/runs?run={run}" in shown.text
    assert 'id="ask"' not in shown.text
    assert f'<option value="{run}" selected>' in shown.text
    for link in re.findall(r'href="(/predict\?[^"]+)"', shown.text.partition("<main")[2]):
        assert client.get(f"{html.unescape(link)}&fragment=1").status_code == 200


@pytest.mark.parametrize("asked", ["nope", "/etc/passwd", "scenario.yaml"])
@pytest.mark.usefixtures("run")
def test_names_of_no_run_are_told_and_never_opened(client: TestClient, asked: str) -> None:
    shown = client.get(f"/explain?run={asked}&fragment=1")
    assert shown.status_code == 422
    assert "no run" in shown.text


def test_predict_leads_here(client: TestClient) -> None:
    assert 'href="/explain?model=' in client.get(f"/predict?{SLOW}&fragment=1").text
