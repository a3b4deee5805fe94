"""The view Explore without a browser: its studies, its mistakes, and what its jobs leave."""

import csv
from html import unescape

import pytest

from sightline.errors import InputError
from sightline.exploration import BUILT_IN
from sightline.progress import SILENT
from sightline.web.request import Asked
from sightline.web.search_views import run_study, study_job

OWN = {
    "study": "own",
    "model": "qwen2.5-0.5b",
    "cluster": "8x h100-sxm-80gb",
    "workload.task": "pretrain",
    "workload.sequence_length": "2048",
    "workload.global_batch": "64",
    "axes": "cluster.device.memory_bandwidth: [1x, 2x]\nplan.micro_batch: [1, 2]",
    "quick": "no",
}


def found(**values):
    """What the job of an address finds."""
    request = study_job(Asked(values))
    return run_study(request.mapping, request.options, SILENT)


def test_every_built_in_study_can_be_chosen(client):
    page = unescape(client.get("/explore").text)
    assert all(f'value="{name}"' in page and asks in page for name, asks in BUILT_IN.items())
    assert 'data-state="new"' in page
    assert 'class="problem"' not in page


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_study_can_be_asked_for(name):
    request = study_job(Asked({"study": name}))
    assert request.mapping["study"] == name
    assert request.options["quick"]


def test_a_study_has_sentences_charts_and_all_of_its_rows():
    result = found(study="bound-by")
    assert "coarser grid" in result["piece"]["html"]
    assert result["piece"]["charts"]
    assert "sightline explore bound-by --quick" in result["piece"]["html"]
    rows = list(csv.DictReader(result["files"]["study.csv"].splitlines()))
    assert len(rows) == len(result["document"]["rows"])


def test_a_view_of_devices_and_settings_are_heard():
    result = found(study="dram", view="ideal", set="workload.batch: 4")
    assert {row["view"] for row in result["document"]["rows"]} == {"ideal"}
    assert "Concurrent requests: 4" in result["piece"]["html"]
    assert "--view ideal --set workload.batch=4" in result["piece"]["html"]


def test_a_study_of_ones_own_varies_the_scenario_of_the_form():
    document = found(**OWN, view="both", report="step_time_s, mfu")["document"]
    assert len(document["rows"]) == 8
    assert {"step_time_s", "mfu"} <= document["rows"][0].keys()


def test_the_file_of_a_study_of_ones_own_gives_the_same_answer():
    import re

    from sightline.exploration.run import explore as answered
    from sightline.exploration.study_answer import study_to_dict

    result = found(**OWN, search="tensor_parallel")
    (file,) = re.findall(r'data-file="study.yaml">([^<]*)<', result["piece"]["html"])
    assert study_to_dict(answered(unescape(file)))["rows"] == result["document"]["rows"]


@pytest.mark.parametrize(
    ("values", "field", "said"),
    [
        ({"study": "drum"}, "study", "did you mean 'dram'"),
        ({"study": "dram", "view": "idea"}, "view", "did you mean 'ideal'"),
        ({"study": "dram", "set": "plan.dtipe: fp8"}, "set", "did you mean 'dtype'"),
        ({"study": "dram", "set": "cluster: 8x h100-sxm-80gb"}, "set", "varies cluster"),
        ({"study": "dram", "set": "fp8"}, "set", "a line has a dotted key"),
        ({**OWN, "model": "qwen2.5-0.6b"}, "model", "did you mean"),
        ({**OWN, "plan.zero_stage": "7"}, "plan.zero_stage", "plan.zero_stage is 7"),
        ({**OWN, "axes": "plan.mikro_batch: [1, 2]"}, "axes", "did you mean 'micro_batch'"),
        ({**OWN, "axes": "plan.micro_batch: 2"}, "axes.plan.micro_batch", "a list of values"),
        ({**OWN, "axes": "plan.micro_batch: [0, 2]"}, "axes.plan.micro_batch", "1 or more"),
        ({**OWN, "axes": "plan.dtype: [bf16, bf17]"}, "axes", "plan.dtype is 'bf17'"),
        ({**OWN, "search": "tensor"}, "search", "tensor_parallel"),
        ({**OWN, "report": "step_time"}, "report", "step_time_s"),
        ({**OWN, "prices": "cluster.device.memory_bandwidth: 3"}, "prices.cluster.device.memory_bandwidth", "USD"),
    ],
)
def test_a_mistake_is_shown_next_to_its_field(client, values, field, said):
    answer = client.get("/explore", params={**values, "fragment": "1"})
    assert answer.status_code == 422
    assert said in unescape(answer.text)
    assert f'data-problem="{field}"' in answer.text


def test_too_many_points_are_refused():
    spread = "{from: 1x, to: 2x, steps: 1000}"
    axes = f"cluster.device.memory_bandwidth: {spread}\ncluster.device.peak_flops: {spread}"
    with pytest.raises(InputError, match="axes have 1,000,000 points; allowed: up to 100,000"):
        study_job(Asked({**OWN, "axes": axes}))


def test_no_file_is_read(client):
    for values in ({"study": "/etc/passwd"}, {**OWN, "model": "/etc/passwd"}, {"study": "dram", "set": "model: /etc"}):
        assert client.get("/explore", params={**values, "fragment": "1"}).status_code == 422


def test_files_of_a_study_that_is_not_done_are_not_there(client):
    answer = client.get("/explore/study.csv", params={"study": "trends", "set": "since: 2017"})
    assert answer.status_code == 404


def test_links_keep_the_scenario(client):
    page = unescape(client.get("/explore", params={"model": "qwen2.5-0.5b", "cluster": "2x b200-sxm-180gb"}).text)
    assert 'href="/predict?workload.' in page
    assert "model=qwen2.5-0.5b&cluster=2x+b200-sxm-180gb" in page
