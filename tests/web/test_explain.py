"""Explain on the page: the limits and the advice of the scenario in the address."""

from starlette.testclient import TestClient


def test_the_start_shows_limits_and_time(client: TestClient) -> None:
    shown = client.get("/explain")
    assert shown.status_code == 200
    assert "What limits it" in shown.text
    assert "Time by module" in shown.text


def test_a_mistake_is_named(client: TestClient) -> None:
    shown = client.get("/explain?plan.pipeline=-3&fragment=1")
    assert shown.status_code == 422
    assert "plan.pipeline" in shown.text
