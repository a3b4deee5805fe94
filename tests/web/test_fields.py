"""What forms are made of: what each field means, and fields that nobody filled in."""

import re

import pytest

from sightline.loading.schema import schema
from sightline.web.fields import groups

FIELDS = [field for group in groups() for field in group.fields]


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field.key}-{field.label}")
def test_every_field_of_a_scenario_says_what_it_means(field):
    assert field.help


def test_meanings_are_those_of_the_schema():
    plan = schema()["definitions"]["scenario"]["properties"]["plan"]["properties"]
    field = next(field for field in FIELDS if field.key == "plan.zero_stage")
    assert field.help == plan["zero_stage"]["description"]


@pytest.mark.parametrize("view", ["predict", "plan", "serve"])
def test_empty_fields_of_a_plan_are_counted(client, view):
    def count(query):
        shown = client.get(f"/{view}?model=llama-3-8b&cluster=8x+h100-sxm-80gb{query}").text
        return int(re.search(r'"left-out"><summary><span>(\d+)</span>', shown)[1])

    task = "serve" if view == "serve" else "generate"
    stated = f"&workload.task={task}"
    assert count(stated) - count(f"{stated}&plan.tensor_parallel=2&plan.dtype=fp8") == 2
