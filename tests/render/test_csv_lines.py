"""Results as CSV: every number of the JSON, and a scenario that can be read again."""

import csv
import io

import pytest
from chart_answers import ANSWERS, training

import sightline as sl
from sightline.content import flatten
from sightline.loading import operation_from_mapping
from sightline.loading.sources import cell_value
from sightline.render.csv import csv_text, to_csv


def operator():
    workload = {"task": "operator", "operator": "attention", "heads": 8, "head_dim": 128, "query_tokens": 64}
    return sl.predict(operation_from_mapping({"cluster": "1x h100-sxm-80gb", "workload": workload}))


def offloaded():
    plan = {"pipeline_parallel": 1, "tensor_parallel": 1, "framework": "deepspeed"}
    return sl.predict(training(8, **plan, zero_stage=3, offload=["optimizer", "parameters"]))


MADE = {
    **{name: ANSWERS[name] for name in ("step", "generation", "load")},
    "operator": operator,
    "offloaded": offloaded,
}


def read(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_every_number_is_that_of_the_json(make):
    profile = make()
    (line,) = read(to_csv([profile]))
    result = profile.to_dict()
    del result["scenario"]
    numbers = {key: of for key, of in flatten(result).items() if isinstance(of, float | int) and of is not True}
    assert len(numbers) > 3
    assert {key: float(line[key]) for key in numbers} == numbers


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_the_scenario_is_read_back_from_its_cells(make):
    profile = make()
    (line,) = read(to_csv([profile]))
    scenario = flatten(profile.to_dict()["scenario"])
    told = {key: of for key, of in scenario.items() if key.startswith(("plan.", "workload.")) and of != {}}
    assert told
    # A text such as a version may be a number to YAML, which the loader reads as it was written.
    cells = {key: line[key] if isinstance(of, str) else cell_value(line[key]) for key, of in told.items()}
    assert cells == told


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_switches_and_lists_are_written_alike_in_all_columns(make):
    (line,) = read(to_csv([make()]))
    assert not {"True", "False"} & set(line.values())
    assert not [cell for cell in line.values() if cell.startswith("['")]


@pytest.mark.parametrize("name", ["a, b", 'say "more"', "two\nlines", "Zürich, 東京", "a | b"])
def test_names_are_read_back(name):
    assert read(csv_text([{"name": name, "value": 0.1 + 0.2}])) == [{"name": name, "value": "0.30000000000000004"}]
