"""The answer of a search of plans for programs."""

import csv
import io
import json

import plan_answers
import pytest

from sightline.loading import load, to_mapping
from sightline.planning.plan_answer import plans_to_dict
from sightline.quantities import as_json
from sightline.render.csv import plans_to_csv

DOCUMENTED = {"objective", "evaluated", "feasible", "rejected", "seconds", "plans", "pareto", "nearest", "neighbours"}


@pytest.mark.parametrize("answer", [plan_answers.trained, plan_answers.generating, plan_answers.empty])
def test_the_documented_keys_are_always_there(answer):
    document = json.loads(json.dumps(as_json(plans_to_dict(answer())), allow_nan=False))
    assert {"version", "schema"} | DOCUMENTED <= set(document)


def test_a_plan_has_its_place_its_choices_and_its_results():
    answer = plan_answers.trained()
    first, second, *_, last = plans_to_dict(answer, {1: "torchrun pretrain.py"})["plans"]
    assert [first["rank"], first["tied"], first["better"]] == [1, False, None]
    assert [second["rank"], second["tied"], second["better"]] == [2, True, 0.43]
    assert first["cluster"] == "16x h100-sxm-80gb"
    assert first["plan"]["tensor_parallel"] == answer.plans[0].profile.scenario.plan.tensor_parallel
    assert first["step_time_s"] == answer.plans[0].profile.step_time_s
    assert [first["launch"], second["launch"]] == ["torchrun pretrain.py", None]
    assert [last["launchable"], last["obstacles"]] == [False, ["megatron does not offer it"]]


def test_a_plan_of_the_answer_loads_as_the_scenario_that_was_priced():
    for one in plans_to_dict(plan_answers.trained())["plans"]:
        again = load(as_json(one["scenario"]))
        assert as_json(to_mapping(again)["plan"]) == as_json(one["plan"])


def test_nothing_fits_has_no_plans_but_the_nearest():
    document = plans_to_dict(plan_answers.empty())
    assert document["plans"] == []
    (near,) = document["nearest"]
    assert near["set"] == {"plan.adapter": "qlora"}
    assert near["command"].startswith("sightline plan")
    assert near["step_time_s"] > 0


def test_csv_has_a_line_per_plan():
    answer = plan_answers.generating()
    lines = list(csv.DictReader(io.StringIO(plans_to_csv(answer))))
    assert [line["rank"] for line in lines] == [str(one.rank) for one in answer.plans]
    assert [line["pareto"] for line in lines] == ["true", "false", "true", "false", "false", "true"]
    assert [float(line["tpot_s"]) for line in lines] == [one.profile.tpot_s for one in answer.plans]
    assert plans_to_csv(plan_answers.empty()) == "\n"
