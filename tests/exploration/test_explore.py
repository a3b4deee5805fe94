"""``explore``: built-in studies by name."""

from importlib import import_module

import pytest

from sightline.errors import InputError
from sightline.exploration import BUILT_IN
from sightline.exploration.run import QUICK, check, explore, is_name, read_view
from sightline.exploration.study_answer import study_to_dict


@pytest.mark.parametrize("name", BUILT_IN)
def test_each_listed_study_is_there(name):
    assert import_module(f"sightline.exploration.studies.{name.replace('-', '_')}").study.__doc__


def test_a_built_in_study_answers_its_name_and_keeps_the_contract():
    answer = explore("bound-by", quick=True)
    assert QUICK in answer.warnings
    assert f"{QUICK}." in answer.assumptions
    document = study_to_dict(answer)
    assert document["study"] == answer.study == "bound-by"
    assert len(document["rows"]) == len(answer) > 0
    assert answer.assumptions


def test_figures_that_a_row_lacks_are_null():
    base = {"model": "llama-2-7b", "cluster": "8x h100-sxm-80gb"}
    base |= {"workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 8}, "plan": {"micro_batch": 1}}
    document = study_to_dict(explore({"base": base, "axes": {"plan.tensor_parallel": [1, 3]}}))
    assert [row["step_time_s"] is None for row in document["rows"]] == [False, True]
    assert [row["fits"] is None for row in document["rows"]] == [False, True]


@pytest.mark.parametrize("source", ["study.yaml", "a.json", "-", "base: 1\naxes: {}", "{base: 1}"])
def test_files_and_texts_are_no_names(source):
    assert not is_name(source)


def test_an_unknown_view_has_the_nearest():
    with pytest.raises(InputError, match="did you mean 'calibrated'"):
        read_view("calibrate")


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "trends"])
def test_mistakes_of_a_study_show_before_it_is_run(name):
    with pytest.raises(InputError, match="dtipe is not a known key"):
        check(name, most=1, overrides={"plan.dtipe": "fp8"})


def test_a_study_without_mistakes_is_not_refused():
    check("technology-nodes", most=1, view="ideal")


def test_a_study_of_ones_own_may_be_bounded():
    base = {
        "model": "qwen2.5-0.5b",
        "cluster": "8x h100-sxm-80gb",
        "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 64},
    }
    axis = {"from": "1x", "to": "4x", "steps": 4}
    study = {"base": base, "axes": {"cluster.device.peak_flops": axis}, "view": "both"}
    check(study, most=8)
    check(study, most=6, quick=True)
    with pytest.raises(InputError, match="8 points; allowed: up to 7"):
        check(study, most=7)
