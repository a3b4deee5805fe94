"""The interface for programs, asked without a server."""

import json

import pytest

SCENARIO = {
    "model": "llama-3-8b",
    "cluster": "8x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 16},
    "plan": {"micro_batch": 1, "zero_stage": 1},
}
GENERATE = {
    "model": "llama-3-8b",
    "cluster": "1x h100-sxm-80gb",
    "workload": {"task": "generate", "batch": 1, "prompt_tokens": 128, "output_tokens": 8},
}


def test_predict_answers_as_the_command_line_does(client, tmp_path):
    from typer.testing import CliRunner

    from sightline.cli.app import command_line

    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(SCENARIO))
    said = CliRunner().invoke(command_line("predict"), ["predict", str(file), "--json"])
    assert client.post("/api/v1/predict", json=SCENARIO).json() == json.loads(said.stdout)


def test_a_scenario_may_stand_beside_options(client):
    assert (
        client.post("/api/v1/predict", json={"scenario": GENERATE}).json()
        == client.post("/api/v1/predict", json=GENERATE).json()
    )


def test_a_sweep_is_answered_by_a_list(client):
    found = client.post("/api/v1/predict", json=GENERATE | {"sweep": {"workload.batch": [1, 2]}}).json()
    assert [one["scenario"]["workload"]["batch"] for one in found] == [1, 2]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": "lama-3-8b"}, "did you mean 'llama-3-8b'"),
        ({"model": "/etc/passwd"}, "the server does not read files"),
        ({"model": "../../pyproject.toml"}, "the server does not read files"),
        ({"plan": {"zero_stage": 7}}, "plan.zero_stage is 7"),
        ({"sweep": {"plan.micro_batch": list(range(1, 100))}}, "99 scenarios; allowed here: up to 64"),
        (
            {"workload": {"task": "serve", "trace": "/etc/passwd"}},
            "workload.trace is '/etc/passwd'; the server does not read files",
        ),
        (
            {
                "workload": {
                    "task": "serve",
                    "requests": {
                        "count": 2,
                        "prompt_tokens": {"distribution": "empirical", "file": "/etc/passwd"},
                        "output_tokens": 5,
                    },
                }
            },
            "prompt_tokens.file is '/etc/passwd'; the server does not read files",
        ),
    ],
)
def test_what_is_wrong_is_said_in_sentences(client, changes, said):
    found = client.post("/api/v1/predict", json=SCENARIO | changes)
    assert found.status_code == 422
    assert said in " ".join(found.json()["problems"])


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ("{", "application/json", 400),
        ("[1]", "application/json", 422),
        ("{}", "text/plain", 415),
        ('{"model": ' + "[" * 100_000, "application/json", 400),
        ('{"model": 1e999, "cluster": NaN}', "application/json", 422),
    ],
)
def test_what_is_no_scenario_is_refused(client, body, kind, status):
    found = client.post("/api/v1/predict", content=body, headers={"content-type": kind})
    assert found.status_code == status
    assert found.json()["problems"]


def test_an_unknown_job_is_told_so(client):
    for path in ("/api/v1/jobs/0123456789abcdef0123", "/api/v1/jobs/..%2f..%2fpasswd", "/api/v1/jobs/x/events"):
        found = client.get(path)
        assert found.status_code == 404
    assert "ask again" in client.get("/api/v1/jobs/0123456789abcdef0123").json()["error"]


def test_options_that_would_open_files_are_none(client):
    found = client.post("/api/v1/plan", json={"scenario": SCENARIO, "options": {"where": "/tmp/x"}})
    assert found.status_code == 422
    assert "where is no option of plan" in found.json()["error"]
