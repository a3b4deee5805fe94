"""Validate: a suite is chosen and evaluated as a job; unknown ones are told at once."""

import pytest


def test_suites_are_offered(client):
    shown = client.get("/validate").text
    assert "<option >korthikanti-2022-table5</option>" in shown
    assert 'class="job"' in shown


def test_a_chosen_suite_is_evaluated_with_its_cases():
    from sightline.progress import SILENT
    from sightline.web.work.validate import work

    result = work({"suite": "korthikanti-2022-table5"}, {}, SILENT)
    assert {one["suite"] for one in result["document"]["suites"]} == {"korthikanti-2022-table5"}
    assert "Cases" in result["piece"]["html"]
    assert result["piece"]["charts"]


@pytest.mark.parametrize("suite", ["korthikanti-2023-table5", "../../etc/passwd"])
def test_a_suite_that_is_not_there_is_told(client, suite):
    shown = client.get("/validate", params={"suite": suite, "fragment": 1})
    assert shown.status_code == 422
    assert "suite: " in shown.text
