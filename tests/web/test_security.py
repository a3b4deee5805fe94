"""Who may ask the local server."""

import pytest

from sightline.commands import COMMANDS
from sightline.errors import InputError
from sightline.on_demand import named
from sightline.progress import SILENT

HEADERS = ("content-security-policy", "x-content-type-options", "referrer-policy")


@pytest.mark.parametrize(
    "host", ["evil.example:8750", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:8750", "192.168.0.7:8750", ""]
)
def test_other_names_of_the_server_are_refused(client, host):
    assert client.get("/predict", headers={"host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8750", "localhost:8750", "[::1]:8750"])
def test_names_of_this_machine_are_answered(client, host):
    assert client.get("/", headers={"host": host}).status_code == 307


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://127.0.0.1:9"},
    ],
)
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_other_sites_may_change_nothing(client, headers, method):
    found = client.request(method, "/api/v1/jobs/0123456789abcdef0123", headers=headers)
    assert found.status_code == 403


def test_other_sites_may_link_here_but_not_embed_answers(client):
    foreign = {"sec-fetch-site": "cross-site"}
    assert client.get("/", headers=foreign | {"sec-fetch-mode": "navigate"}).status_code == 307
    assert client.get("/predict", headers=foreign | {"sec-fetch-mode": "no-cors"}).status_code == 403


def test_own_pages_may_ask(client):
    headers = {"origin": "http://127.0.0.1:8750", "sec-fetch-site": "same-origin"}
    assert client.post("/api/v1/predict", json={}, headers=headers).status_code == 422


def test_large_requests_are_refused_with_and_without_a_stated_size(client):
    assert client.post("/api/v1/predict", content=b" " * 2_000_001).status_code == 413
    assert client.post("/api/v1/predict", content=(b" " * 100_000 for _ in range(30))).status_code == 413
    assert client.post("/api/v1/predict", content=b"", headers={"content-length": "-5"}).status_code == 413


@pytest.mark.parametrize("path", ["/", "/predict?fragment=1&model=x", "/none", "/api/v1/openapi.json"])
def test_every_answer_says_what_browsers_may_do(client, path):
    found = client.get(path)
    assert all(name in found.headers for name in HEADERS)
    policy = found.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "access-control-allow-origin" not in found.headers


@pytest.mark.parametrize(
    ("kind", "mapping"),
    [
        ("explore", {"study": "mine", "base": "/etc/passwd", "axes": {"plan.micro_batch": [1, 2]}}),
        ("explore", {"study": "/etc/passwd"}),
        ("plan", {"model": "/etc", "cluster": "8x h100-sxm-80gb", "workload": {"task": "generate"}}),
        (
            "simulate",
            {
                "model": "llama-3-8b",
                "cluster": "1x h100-sxm-80gb",
                "workload": {"task": "serve", "trace": "/etc/passwd"},
            },
        ),
    ],
)
def test_long_work_opens_no_file_that_a_request_names(kind, mapping):
    with pytest.raises(InputError, match=r"does not read files|allowed: "):
        named(f"sightline.{COMMANDS[kind].work}").run(mapping, {}, SILENT)


def test_vega_comes_from_this_server_and_may_be_kept(client):
    from sightline.web import assets

    found = client.get(assets.address(assets.VEGA))
    assert found.status_code == 200
    assert "vegaEmbed" in found.text
    assert "immutable" in found.headers["cache-control"]
