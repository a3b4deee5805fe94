"""Validate: how far to trust a scenario is told at once; a suite that is chosen is evaluated as a job."""

import pytest

SCENARIO = (
    "model=llama-3-8b&cluster=64x+h100-sxm-80gb&workload.task=pretrain&workload.sequence_length=4096"
    "&workload.global_batch=256&plan.framework=megatron"
)


def test_the_scenario_is_judged_first_and_nothing_starts(client):
    shown = client.get(f"/validate?{SCENARIO}").text
    assert "Evidence for this result" in shown
    assert "same device and framework" in shown
    assert "inside their 80 % interval" in shown
    assert "megatron-core-h100" in shown.partition('id="answer"')[2]
    assert 'class="job"' not in shown


def test_suites_are_offered_and_wait_for_the_button(client):
    shown = client.get("/validate").text
    assert "<option >korthikanti-2022-table5</option>" in shown
    assert 'class="job"' not in shown
    assert 'data-state="new"' in client.get("/validate?suite=all").text


def test_a_device_that_nobody_measured_is_said_to_be_so(client):
    asked = SCENARIO.replace("64x+h100-sxm-80gb", "8x+mi300x").replace("megatron", "torchtitan")
    shown = client.get(f"/validate?{asked}&fragment=1").text
    assert "no published case of this task" in shown
    assert "extrapolated" in shown


def test_loads_are_not_compared(client):
    shown = client.get("/validate?workload.task=serve&model=llama-3-8b&cluster=1x+h100-sxm-80gb&fragment=1")
    assert shown.status_code == 422


def test_a_chosen_suite_is_evaluated_with_its_cases():
    from sightline.progress import SILENT
    from sightline.web.scenario_views import validated

    result = validated({"suite": "korthikanti-2022-table5"}, {}, SILENT)
    assert {one["suite"] for one in result["document"]["suites"]} == {"korthikanti-2022-table5"}
    assert "Cases" in result["piece"]["html"]
    assert result["piece"]["charts"]


@pytest.mark.parametrize("suite", ["korthikanti-2023-table5", "../../etc/passwd"])
def test_a_suite_that_is_not_there_is_told(client, suite):
    shown = client.get("/validate", params={"suite": suite, "fragment": 1})
    assert shown.status_code == 422
    assert "suite: " in shown.text
