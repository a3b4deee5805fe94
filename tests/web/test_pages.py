"""Pages and their parts, asked without a browser."""

import pytest
import yaml


def test_a_page_answers_and_the_part_that_changed_is_in_it(client):
    query = "model=llama-3-8b&cluster=8x+h100-sxm-80gb&workload.task=generate&workload.batch=4&workload.prompt_tokens=512&workload.output_tokens=16"
    whole, part = client.get(f"/predict?{query}"), client.get(f"/predict?{query}&fragment=1")
    assert whole.status_code == part.status_code == 200
    assert 'data-card="fits"' in part.text
    assert '<section id="answer"' not in part.text


def test_mistakes_are_named_by_key(client):
    found = client.get("/predict?model=lama-3-8b&cluster=8x+h100-sxm-80gb&fragment=1")
    assert found.status_code == 422
    assert 'data-problem="model"' in found.text


@pytest.mark.parametrize(
    "path", ["/static/x/../../pyproject.toml", "/static/x/%2e%2e%2fapp.py", "/static/x/none.css", "/no"]
)
def test_nothing_else_is_served(client, path):
    assert client.get(path).status_code == 404


MATMUL = "cluster=1x+h100-sxm-80gb&workload.task=operator&workload.operator=matmul&workload.m=512&workload.n=512&workload.k=512"
SERVE = "model=llama-3-8b&cluster=1x+h100-sxm-80gb&workload.task=serve&workload.requests.count=4&workload.requests.prompt_tokens=16&workload.requests.output_tokens=4"


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        (MATMUL, 200, "512"),
        (SERVE, 422, "serve"),
        (f"{MATMUL}&sweep.workload.m=[1,2]", 422, "sweep stands for 2 scenarios; allowed here: one"),
        ("config={", 422, "config"),
        ("more=a", 422, "a dotted key, a colon and a value"),
        ("more=plan.zero_stage:+9", 422, "plan.zero_stage is 9"),
        ("plan=3&plan.zero_stage=1", 422, "plan"),
        ("workload..task=1", 422, "is not a key"),
        ("model=%00", 422, "model"),
        ("model=" + "[" * 3000, 422, "model"),
        ("cluster=" + "9" * 5000 + "x+h100-sxm-80gb", 422, "cluster"),
    ],
)
def test_every_question_has_an_answer_in_words(client, query, status, said):
    found = client.get(f"/predict?{query}&fragment=1")
    assert found.status_code == status
    assert said in found.text
    assert client.get(f"/predict?{query}").status_code == 200


def test_the_document_of_a_plan_that_does_not_fit_is_that_of_the_interface_which_may_name_the_nearest_that_do(client):
    query = "model=llama-3-70b&cluster=8x+h100-sxm-80gb&workload.task=pretrain&workload.sequence_length=4096&workload.global_batch=64&plan.tensor_parallel=8&plan.micro_batch=2"
    found = client.get(f"/predict/answer.json?{query}").json()
    scenario = client.get(f"/predict/scenario.yaml?{query}").text
    same = client.post("/api/v1/predict", json={"scenario": yaml.safe_load(scenario)}).json()
    assert found.keys() == same.keys()
    asked = {"scenario": yaml.safe_load(scenario), "options": {"nearest": True}}
    assert client.post("/api/v1/predict", json=asked).json()["nearest"]


@pytest.mark.parametrize("part", ["better", "why", "answer.json", "answer.csv", "scenario.yaml", "report.html"])
def test_parts_of_an_answer_have_addresses_of_their_own(client, part):
    query = SERVE.replace("task=serve&", "task=generate&").partition("&workload.requests")[0]
    query += "&workload.batch=1&workload.prompt_tokens=64&workload.output_tokens=4"
    assert client.get(f"/predict/{part}?{query}").status_code == 200
    assert client.get(f"/predict/{part}?model=x").status_code == (200 if part == "scenario.yaml" else 422)
