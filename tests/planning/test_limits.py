"""Limits of plans: each is read with its unit, and mistakes in several are told together."""

import pytest

from sightline.errors import InputError
from sightline.planning.plan_limits import BY_KEY, LIMITS, by_key, read_limits
from sightline.planning.search import plan


def test_every_limit_is_on_a_result_of_its_own():
    assert {name for name, _ in BY_KEY.values()} == LIMITS.keys()
    assert len({limit.rejects for limit in LIMITS.values()}) == len(LIMITS)


def test_limits_are_read_with_their_units():
    stated = {"max_memory": "70 GB", "deadline": "30d", "budget": "1M", "ttft": "300 ms", "tpot": None}
    found = read_limits(**stated)
    assert found == {"max_memory": 7e10, "deadline": 30 * 86400, "budget": 1e6, "ttft": 0.3}
    assert set(by_key(found)) == {"memory_bytes.total", "calendar_time_s", "cost_usd", "ttft_s"}


def test_mistakes_in_several_limits_are_told_together():
    with pytest.raises(InputError) as error:
        read_limits(max_memory="much", deadline=7, budget="1M", ttft="soon")
    assert [problem.split()[0] for problem in error.value.problems] == ["max_memory", "deadline", "ttft"]


@pytest.mark.parametrize(
    ("task", "wrong", "said"),
    [
        ("pretrain", {"ttft": "300 ms", "tpot": "10 ms"}, ["ttft", "tpot"]),
        ("generate", {"deadline": "30d", "budget": "1M"}, ["deadline", "budget"]),
    ],
)
def test_limits_of_another_task_are_refused_by_name(task, wrong, said):
    sizes = {"pretrain": {"sequence_length": 128, "global_batch": 4}, "generate": {"batch": 4, "prompt_tokens": 10}}
    work = {"task": task, **sizes[task], **({"output_tokens": 10} if task == "generate" else {})}
    with pytest.raises(InputError) as error:
        plan({"model": "llama-3.2-1b", "cluster": "1x h100-sxm-80gb", "workload": work}, **wrong)
    assert [problem.split()[0] for problem in error.value.problems] == said


@pytest.mark.parametrize(("name", "milliseconds"), [("ttft", 300), ("tpot", "10")])
def test_milliseconds_without_their_unit_are_not_taken_for_seconds(name, milliseconds):
    with pytest.raises(InputError, match=f"{name} is '?{milliseconds}'?, which is {milliseconds} seconds; add a unit"):
        read_limits(**{name: milliseconds})
    assert read_limits(**{name: f"{milliseconds} s"}) == {name: float(milliseconds)}
    assert read_limits(**{name: 0.3}) == {name: 0.3}


def test_weeks_are_days_and_a_time_below_zero_is_told_how_a_deadline_is_written():
    assert {read_limits(deadline=one)["deadline"] for one in ("2w", "2 weeks", "14d")} == {14 * 86400.0}
    with pytest.raises(InputError, match=r"deadline is '-3d'; allowed: .*'30d' or '72h'"):
        read_limits(deadline="-3d")
