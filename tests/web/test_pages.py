"""Pages and their parts, asked without a browser."""

import pytest


def test_a_page_answers_and_the_part_that_changed_is_in_it(client):
    query = "model=llama-3-8b&cluster=8x+h100-sxm-80gb&workload.task=generate&workload.batch=4&workload.prompt_tokens=512&workload.output_tokens=16"
    whole, part = client.get(f"/predict?{query}"), client.get(f"/predict?{query}&fragment=1")
    assert whole.status_code == part.status_code == 200
    assert "fits in memory" in part.text
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
