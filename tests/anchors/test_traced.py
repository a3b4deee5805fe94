"""A trace of one's own job as an anchor."""

from pathlib import Path

import pytest
from kineto import Composed

import sightline as sl
from sightline.errors import InputError

SCENARIO = Path(__file__).parents[2] / "examples" / "llama-2-7b-zero2-8xa800.yaml"


def traced(folder, step_us, *, has_steps=True):
    trace = Composed()
    for number in range(3):
        if has_steps:
            trace.step(number, number * step_us, step_us)
        trace.kernel("sm90_xmma_gemm_bf16", number * step_us + 5, step_us - 5)
    return trace.write(folder)


def test_a_trace_teaches_the_step_of_the_scenario_next_to_it(tmp_path):
    before = sl.predict(sl.load(SCENARIO)).step_time_s
    place = traced(tmp_path, before * 1.3e6)
    after = sl.predict(sl.load(SCENARIO), anchor=[f"{place}@{SCENARIO}"])
    assert after.step_time_s == pytest.approx(1.3 * before, rel=0.05)
    assert after.anchor[0]["from"] == f"{place}@{SCENARIO}"


def test_a_trace_alone_does_not_say_what_ran(tmp_path):
    with pytest.raises(InputError, match=r"write .*@SCENARIO.yaml"):
        sl.predict(sl.load(SCENARIO), anchor=[str(traced(tmp_path, 1e6))])


def test_a_trace_without_steps_teaches_nothing(tmp_path):
    place = traced(tmp_path, 1e6, has_steps=False)
    with pytest.raises(InputError, match="has no steps"):
        sl.predict(sl.load(SCENARIO), anchor=[f"{place}@{SCENARIO}"])


def test_a_scenario_that_is_missing_is_named(tmp_path):
    place = traced(tmp_path, 1e6)
    with pytest.raises(InputError, match=r"gone\.yaml"):
        sl.predict(sl.load(SCENARIO), anchor=[f"{place}@{tmp_path / 'gone.yaml'}"])
