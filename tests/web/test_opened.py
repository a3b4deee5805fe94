"""Files that are opened: each is recognized by its content, and becomes the address that shows it."""

import json
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from opened_files import BENCH, CONFIG, REQUESTS, SERVED

from sightline.loading.sources import OPENED, opened_folder
from sightline.progress import Progress
from sightline.web.opened import anchored
from sightline.web.request import ANCHOR, Asked
from sightline.web.search_views import plan_job, search_plans


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("SIGHTLINE_JOBS", str(tmp_path))
    return tmp_path


def sent(client, name, content, page=None, view="predict"):
    """The answer to a file that is opened, and the fields of its address."""
    asked = {"name": name, "of": urlencode(page or {}), "view": view}
    content = json.dumps(content) if isinstance(content, dict) else content
    found = client.post("/open", params=asked, content=content)
    return found, dict(parse_qsl(urlsplit(found.json().get("address", "")).query))


def path_of(found):
    return urlsplit(found.json()["address"]).path


def shown(client, found):
    return client.get(f"{found.json()['address']}&fragment=1")


def test_a_config_replaces_only_the_model(client):
    page = {"model": "llama-3-8b", "cluster": "16x h100-sxm-80gb", "workload.task": "pretrain"}
    page |= {"workload.sequence_length": "4096", "workload.global_batch": "64"}
    found, values = sent(client, "config.json", CONFIG, page, "explain")
    assert path_of(found) == "/explain"
    assert json.loads(values["config"]) == CONFIG
    assert "model" not in values
    assert values["cluster"] == "16x h100-sxm-80gb"
    assert shown(client, found).status_code == 200


def test_a_scenario_is_shown_by_the_view_of_its_task(client):
    text = "model: llama-3.1-8b\ncluster: 1x h100-sxm-80gb\nworkload: {task: serve, arrival: {rate: 2}}\n"
    found, values = sent(client, "mine.yaml", text)
    assert path_of(found) == "/serve"
    assert values["workload.arrival.rate"] == "2"
    table = "model,cluster,workload.task,workload.batch\nllama-3.1-8b,1x h100-sxm-80gb,generate,4\n"
    found, values = sent(client, "rows.csv", table, view="serve")
    assert path_of(found) == "/predict"
    assert values["workload.batch"] == "4"


def test_a_launch_takes_from_the_page_what_it_does_not_say(client):
    page = {**SERVED, "cluster": "8x h200-sxm-141gb"}
    found, values = sent(client, "run.sh", "vllm serve Qwen/Qwen3-32B -tp 4", page)
    assert path_of(found) == "/serve"
    assert (values["model"], values["cluster"]) == ("qwen3-32b", "4x h200-sxm-141gb")
    assert values["plan.tensor_parallel"] == "4"
    assert values["workload.requests.prompt_tokens"] == "1024"
    assert "tp 4" in found.json()["what"]
    assert any("cluster" in remark for remark in found.json()["remarks"])


def test_what_a_launch_lacks_is_said_next_to_its_field(client):
    script = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 8 "
    script += "--seq-length 1024 --micro-batch-size 1 --global-batch-size 16 --bf16"
    found, _ = sent(client, "run.sh", script)
    assert any("model.vocab_size" in remark for remark in found.json()["remarks"])
    assert 'data-problem="model.vocab_size"' in shown(client, found).text


def test_a_trace_of_requests_is_a_load_of_the_page(client):
    found, values = sent(client, "day one.csv", REQUESTS, SERVED, "plan")
    assert path_of(found) == "/plan"
    assert values["workload.trace"].endswith("-day-one.csv")
    assert "workload.requests.count" not in values
    assert values["workload.slo.ttft"] == "1 s"
    assert shown(client, found).status_code == 200
    # A form sends its own sizes too.
    started = client.post(f"/serve/start?{urlencode({**SERVED, **values})}", headers={"accept": "application/json"})
    assert started.status_code == 202
    for path in opened_folder().iterdir():
        path.unlink()
    forgotten = client.get(f"{found.json()['address'].replace('/plan', '/serve')}&fragment=1")
    assert forgotten.status_code == 422
    assert 'data-problem="workload.trace"' in forgotten.text


@pytest.mark.parametrize("name", ["/etc/passwd", f"{OPENED}../../etc/passwd", f"{OPENED}0123456789ab-../passwd"])
def test_no_other_file_is_read_as_a_trace(client, name):
    found = client.get("/serve", params={**SERVED, "workload.trace": name, "fragment": "1"})
    assert found.status_code == 422
    assert "does not read files" in found.text


def test_a_result_corrects_the_scenario_that_it_was_measured_of(client):
    found, values = sent(client, "bench.json", BENCH, SERVED, "serve")
    assert path_of(found) == "/serve"
    assert values.items() >= SERVED.items()
    measured = dict(parse_qsl(values[ANCHOR]))
    assert measured["workload.arrival.rate"] == "4"
    batch = {"workload.task": "generate", "workload.batch": "8", "workload.prompt_tokens": "1024"}
    server = {key: SERVED[key] for key in ("model", "cluster")}
    asked = Asked({**server, **batch, "workload.output_tokens": "128", ANCHOR: values[ANCHOR]})
    assert anchored(asked).anchor[0]["from"] == "bench.json"
    assert shown(client, found).status_code == 200
    other, _ = sent(client, "bench.json", BENCH)
    assert other.status_code == 422
    assert "workload.task" in other.json()["error"]


def test_a_measured_step_corrects_other_plans_changes_and_comparisons_and_no_other_task(client):
    page = {
        "model": "llama-3-8b",
        "cluster": "8x h100-sxm-80gb",
        "workload.task": "pretrain",
        "workload.sequence_length": "8192",
        "workload.global_batch": "64",
        "plan.tensor_parallel": "2",
    }
    plain = anchored(Asked(page))
    measured = urlencode({**page, "measured.step_time_s": str(1.3 * plain.step_time_s)})
    assert anchored(Asked({**page, ANCHOR: measured})).step_time_s == pytest.approx(1.3 * plain.step_time_s, rel=0.1)
    corrected = urlencode({**page, ANCHOR: measured})
    assert urlencode({ANCHOR: measured}) in client.get(f"/predict/better?{corrected}").text
    assert "B is 30 %" in client.get("/compare", params={"a": urlencode(page), "b": corrected}).text
    other = {**page, "plan.tensor_parallel": "4"}
    assert anchored(Asked({**other, ANCHOR: measured})).step_time_s > 1.05 * anchored(Asked(other)).step_time_s
    server = {"model": "llama-3-8b", "cluster": "1x h100-sxm-80gb", "workload.task": "generate"}
    sizes = {"workload.batch": "1", "workload.prompt_tokens": "64", "workload.output_tokens": "8"}
    assert not anchored(Asked({**server, **sizes, ANCHOR: measured})).anchor


def test_a_search_rests_on_what_was_measured_too():
    page = {"model": "qwen2.5-0.5b", "cluster": "4x h100-sxm-80gb", "workload.task": "pretrain"}
    page |= {"workload.sequence_length": "2048", "workload.global_batch": "32", "objective": "time"}
    measured = urlencode({**page, "measured.step_time_s": "0.2"})
    work = plan_job(Asked({**page, ANCHOR: measured}))
    found = search_plans(work.mapping, work.options, Progress())
    plain = plan_job(Asked(page))
    assert plain.options.keys() == work.options.keys() - {ANCHOR}
    fastest, usual = (
        one["document"]["plans"][0]["step_time_s"]
        for one in (found, search_plans(plain.mapping, plain.options, Progress()))
    )
    assert fastest > 1.1 * usual
    assert f"{ANCHOR}=" in found["piece"]["html"]


@pytest.mark.parametrize("content", [b"hello", b"\x89PNG\0\xff", b"", b"a,b\n1,2\n", b"[1, 2]", b"\x1f\x8bno"])
def test_what_is_none_of_these_is_said(client, place, content):
    found, _ = sent(client, "/etc/passwd", content)
    assert found.status_code == 422
    assert "passwd" in found.json()["error"]
    assert "root:" not in found.text
    assert str(place) not in found.text
    assert not list(opened_folder().glob("*"))


def test_few_files_are_kept(client, monkeypatch):
    monkeypatch.setattr("sightline.web.opened._MOST_KEPT", 2)
    for rate in range(4):
        sent(client, f"{rate}.csv", f"{REQUESTS}{10 + rate},10,10\n", SERVED)
    assert len(list(opened_folder().iterdir())) == 2


def test_a_reproduction_is_chosen_and_done(client):
    assert 'value="talk"' in client.get("/reproduce").text
    assert 'class="job"' in client.get("/reproduce?source=talk").text
    assert client.get("/reproduce?source=none&fragment=1").status_code == 422
