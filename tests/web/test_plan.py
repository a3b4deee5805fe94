"""The view Plan without a browser: its form, its mistakes, its jobs and what they leave."""

import re
from html import unescape

import pytest

from sightline.progress import SILENT
from sightline.web.request import Asked
from sightline.web.search_views import PLAN as VIEW
from sightline.web.search_views import plan_job as job
from sightline.web.search_views import search_plans as work

SMALL = {
    "model": "qwen2.5-0.5b",
    "cluster": "2x h100-sxm-80gb",
    "workload.task": "pretrain",
    "workload.sequence_length": "2048",
    "workload.global_batch": "8",
}


def found(**values):
    """What the job of an address finds."""
    request = job(Asked({**SMALL, **values}))
    return work(request.mapping, request.options, SILENT)


def test_a_model_and_a_cluster_are_enough(client):
    page = client.get("/plan", params={"model": "llama-3-8b", "cluster": "8x h100-sxm-80gb"}).text
    assert 'data-state="new"' in page
    assert "Find the best plan" in page
    assert 'class="problem"' not in page


def test_the_form_as_it_stands_asks_what_its_address_asks():
    short = job(Asked(SMALL))
    whole = job(Asked({**SMALL, "objective": "time", "launchable": "yes"}))
    assert short.id == whole.id
    assert job(Asked({**SMALL, "objective": "memory"})).id != short.id


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("model", "lama-3-8b", "did you mean 'llama-3-8b'"),
        ("plan.zero_stage", "7", "plan.zero_stage is 7"),
        ("deadline", "2", "add a unit"),
        ("objective", "tim", "did you mean 'time'"),
        ("top", "1000", "a whole number from 1 to 50"),
        ("price", "h100-sxm-80gb", "NAME=USD_PER_HOUR"),
        ("workload.trace", "/etc/passwd", "workload.trace"),
    ],
)
def test_a_mistake_is_shown_next_to_its_field(client, field, value, said):
    answer = client.get("/plan", params={**SMALL, field: value, "fragment": "1"})
    assert answer.status_code == 422
    assert said in unescape(answer.text)
    assert f'data-problem="{field}"' in answer.text


def test_a_search_of_too_many_questions_is_refused(client):
    values = {"plan.dtype": "{any: [bf16, fp16, fp32, fp8]}", "devices": "1..1048576x h100-sxm-80gb"}
    many = {**SMALL, **values, "plan.optimizer": "{any: [adamw, sgd, muon, adamw-8bit, lion]}"}
    answer = client.get("/plan", params={**many, "fragment": "1"})
    assert answer.status_code == 422


def test_every_plan_opens_in_full():
    piece = found(top="3", devices="1x h100-sxm-80gb, 2x h100-sxm-80gb")["piece"]
    links = [unescape(link) for link in re.findall(r'<a href="(/predict\?[^"]+)"', piece["html"])]
    assert len(links) == 3
    from urllib.parse import parse_qsl

    from sightline.prediction import predict

    told = {predict(Asked.of(parse_qsl(link.partition("?")[2])).scenario()).step_time_s for link in links}
    assert len(told) > 1


def test_a_link_to_a_plan_predicts_what_the_search_said():
    from urllib.parse import parse_qsl

    from sightline.prediction import predict

    result = found(top="1", **{"plan.micro_batch": "{any: [1, 2]}"})
    (link,) = re.findall(r'<a href="/predict\?([^"]+)"', result["piece"]["html"])
    profile = predict(Asked.of(parse_qsl(unescape(link))).scenario())
    (best,) = result["document"]["plans"]
    assert profile.step_time_s == pytest.approx(best["step_time_s"])
    assert profile.memory_bytes["total"] == pytest.approx(best["memory_bytes"]["total"])


def test_what_runs_the_best_plan_is_there():
    html = found(**{"plan.framework": "fsdp"})["piece"]["html"]
    assert 'data-file="launch.sh"' in html
    assert "with fsdp</h2>" in html


def test_a_pasted_config_stays_in_the_links():
    import json

    config = json.dumps(
        {
            "model_type": "llama",
            "hidden_size": 512,
            "num_hidden_layers": 4,
            "num_attention_heads": 8,
            "intermediate_size": 1024,
            "vocab_size": 32000,
        }
    )
    values = {key: value for key, value in SMALL.items() if key != "model"}
    request = job(Asked({**values, "config": config, "top": "1"}))
    html = work(request.mapping, request.options, SILENT)["piece"]["html"]
    assert "config=%7B" in html


def test_where_nothing_fits_the_nearest_plans_are_links(client):
    values = {"model": "llama-3-70b", "cluster": "2x rtx-4090", "workload.task": "finetune"}
    html = found(**values)["piece"]["html"]
    assert "none fits" in html
    assert "data-value" not in html
    near = [unescape(link) for link in re.findall(r'<a href="(/plan\?[^"]+)"', html)]
    assert near
    assert "plan.framework=" in near[0]
    assert 'data-state="new"' in client.get(near[0]).text


def test_links_of_other_views_leave_the_plan_free(client):
    page = client.get("/predict", params={**SMALL, "plan.tensor_parallel": "2", "plan.framework": "megatron"}).text
    links = re.findall(r'href="/plan\?([^"]*)"', page)
    assert len(links) == 2  # that of the navigation, and the button
    for link in links:
        assert "tensor_parallel" not in link
        assert "plan.framework=megatron" in link


def test_files_of_a_search_that_is_not_done_are_not_there(client):
    answer = client.get("/plan/plans.csv", params={**SMALL, "workload.global_batch": "24"})
    assert answer.status_code == 404
    assert "not done" in answer.json()["error"]


def test_it_is_a_view():
    assert VIEW.takes("plan.framework", "pretrain")
    assert not VIEW.takes("plan.micro_batch", "pretrain")
