"""How far to trust a scenario is told at once; a suite that is chosen is evaluated as a job."""

import pytest

SCENARIO = (
    "model=llama-3-8b&cluster=64x+h100-sxm-80gb&workload.task=pretrain&workload.sequence_length=4096"
    "&workload.global_batch=256&plan.framework=megatron"
)


def test_a_scenario_is_judged_by_the_cases_most_like_it(client):
    shown = client.get(f"/predict?{SCENARIO}&tab=trust&fragment=1").text
    assert "same device and framework" in shown
    assert "megatron-core-h100" in shown


def test_suites_are_offered_and_wait_for_the_button(client):
    shown = client.get("/validate").text
    assert '<option value="korthikanti-2022-table5" >' in shown
    assert 'class="job"' not in shown
    assert 'data-state="new"' in client.get("/validate?suite=all").text


def test_a_device_that_nobody_measured_is_said_to_be_so(client):
    asked = SCENARIO.replace("64x+h100-sxm-80gb", "8x+mi300x").replace("megatron", "torchtitan")
    shown = client.get(f"/predict?{asked}&tab=trust&fragment=1").text
    assert "no published case of this task" in shown
    assert "extrapolated" in shown


def test_a_chosen_suite_is_evaluated_with_its_cases():
    from sightline.progress import SILENT
    from sightline.web.evidence_views import validated

    result = validated({"suite": "korthikanti-2022-table5"}, {}, SILENT)
    assert {one["suite"] for one in result["document"]["suites"]} == {"korthikanti-2022-table5"}
    assert "Cases" in result["piece"]["html"]
    assert result["piece"]["charts"]


@pytest.mark.parametrize("suite", ["korthikanti-2023-table5", "../../etc/passwd"])
def test_a_suite_that_is_not_there_is_told(client, suite):
    shown = client.get("/validate", params={"suite": suite, "fragment": 1})
    assert shown.status_code == 422
    assert "suite: " in shown.text
