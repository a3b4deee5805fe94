"""What counts as a departure, and which cause it is given."""

from random import Random

import pytest
from watched import LARGE, expected, steps

from sightline.watching.departures import Judge


@pytest.fixture(scope="module")
def large():
    return expected(LARGE)


def noisy(seconds, count, seed=0):
    random = Random(seed)
    return [seconds * random.uniform(0.97, 1.03) for _ in range(count)]


def found(judge, *parts):
    """What a judge says of parts of a job after another."""
    return [departure for part in parts for departure in judge.see(part)]


def test_steps_that_all_take_longer_than_predicted_are_no_departure(large):
    judge = Judge(expected=large)
    assert not found(judge, steps(noisy(1.7 * large.step_time_s, 200)))
    assert judge.baseline.step_time_s == pytest.approx(1.7 * large.step_time_s, rel=0.03)


def test_checkpoints_now_and_then_are_no_departure(large):
    times = noisy(large.step_time_s, 200)
    times[30::10] = [20 * large.step_time_s] * len(times[30::10])
    assert not found(Judge(expected=large), steps(times))


def test_warm_up_is_left_out(large):
    judge = Judge(expected=large)
    assert not found(judge, steps([60.0, 9.0, 9.0, *noisy(large.step_time_s, 60)]))
    assert judge.baseline.step_time_s == pytest.approx(large.step_time_s, rel=0.03)


def test_steps_that_stay_slower_are_found_once(large):
    second = large.step_time_s
    (one,) = found(Judge(expected=large), steps(noisy(second, 40)), steps(noisy(2 * second, 80), 41))
    assert one.cause == "slower"
    assert "2 x" in one.sentence
    assert 41 < one.step <= 41 + 16
    assert one.measured_s == pytest.approx(2 * second, rel=0.1)
    assert one.was_s == pytest.approx(second, rel=0.03)


def test_a_fast_job_is_slower_only_for_some_seconds_on_end():
    fast, slow = steps([0.005] * 400), steps([0.010] * 100, 401)
    assert not found(Judge(), fast, slow, steps([0.005] * 400, 501))
    assert found(Judge(), fast, steps([0.010] * 400, 401))


def test_steps_that_grow_bit_by_bit_are_called_growing():
    times = [0.5 * 1.004**at for at in range(150)]
    assert found(Judge(), steps(times))[0].cause == "growing"


@pytest.mark.parametrize(("part", "cause"), [("all_reduce", "link"), ("gradient sync", "link"), ("tokenizer", "part")])
def test_a_part_that_explains_it_is_the_cause(part, cause):
    before = steps([1.0] * 40, parts={part: 0.2, "attention": 0.5})
    after = steps([1.6] * 40, 41, parts={part: 0.8, "attention": 0.5})
    one = found(Judge(), before, after)[0]
    assert (one.cause, one.part) == (cause, part)
    assert one.factor == pytest.approx(4.0)
    assert part in one.sentence


def test_waiting_for_input_is_a_cause_that_no_plan_helps():
    one = found(Judge(), steps([1.0] * 40, wait_s=0.01), steps([1.5] * 40, 41, wait_s=0.5))[0]
    assert one.cause == "input"
    assert not one.can_replan


def test_longer_sequences_are_the_cause_of_steps_that_they_slow(large):
    second = large.step_time_s
    usual = steps(noisy(second, 40), sequence_length=4096)
    longer = steps(noisy(2.2 * second, 60), 41, sequence_length=8192)
    (one,) = found(Judge(expected=large), usual, longer)
    assert (one.cause, one.sequence_length) == ("sequences", 8192)
    assert "8,192 tokens a sample, not 4,096" in one.sentence


def test_sequences_are_longer_than_the_scenario_says_from_the_beginning(large):
    one = found(Judge(expected=large), steps(noisy(large.step_time_s, 40), sequence_length=6000))[0]
    assert (one.cause, one.sequence_length) == ("sequences", 6000)


def test_sequences_that_vary_about_those_expected_are_none(large):
    lengths = [Random(1).choice((3900, 4096, 4096, 4200)) for _ in range(100)]
    job = [
        one for at, length in enumerate(lengths) for one in steps([large.step_time_s], at + 1, sequence_length=length)
    ]
    assert not found(Judge(expected=large), job)


def test_fewer_devices_are_said_once_and_then_expected(large):
    judge = Judge(expected=large)
    one = judge.see_devices(3, 5)
    assert (one.cause, one.devices) == ("devices", 3)
    assert "3 of 4 devices" in one.sentence
    assert judge.see_devices(3, 6) is None
    assert judge.see_devices(4, 7).sentence == "more devices: 4 devices work, not 3"


def test_devices_that_nobody_knows_are_none(large):
    assert Judge(expected=large).see_devices(None, 1) is None
    assert Judge().see_devices(8, 1) is None


def test_memory_near_the_limit_is_said_once():
    judge = Judge()
    assert judge.see_memory(70e9, 80e9, 1) is None
    assert "memory is nearly full" in judge.see_memory(78e9, 80e9, 2).sentence
    assert judge.see_memory(79e9, 80e9, 3) is None
    assert Judge().see_memory(None, None, 1) is None
