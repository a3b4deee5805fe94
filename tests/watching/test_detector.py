"""What counts as a departure, and which cause it is given."""

from random import Random

import pytest
from watched import LARGE, expected, steps

from sightline.watching.detector import DepartureDetector, is_link


@pytest.fixture(scope="module")
def large():
    return expected(LARGE)


def noisy(seconds, count, seed=0):
    random = Random(seed)
    return [seconds * random.uniform(0.97, 1.03) for _ in range(count)]


def found(detector, *parts):
    """What a detector says of parts of a job after another."""
    return [departure for part in parts for departure in detector.see(part)]


def test_a_job_that_is_slower_than_predicted_from_the_start_departs_once(large):
    detector = DepartureDetector(expected=large)
    (one,) = found(detector, steps(noisy(3 * large.step_time_s, 200)))
    assert (one.cause, one.step) == ("assumption", 13)
    assert one.factor == pytest.approx(3.0, rel=0.03)
    assert "slower than predicted from the start" in one.sentence
    assert one.can_replan


def test_a_constant_error_within_the_interval_is_no_departure(large):
    detector = DepartureDetector(expected=large)
    assert not found(detector, steps(noisy(0.9 * large.interval[1], 200)))
    assert detector.baseline.step_time_s == pytest.approx(0.9 * large.interval[1], rel=0.03)


def test_checkpoints_now_and_then_are_no_departure(large):
    times = noisy(large.step_time_s, 200)
    times[30::10] = [20 * large.step_time_s] * len(times[30::10])
    assert not found(DepartureDetector(expected=large), steps(times))


def test_warm_up_is_left_out(large):
    detector = DepartureDetector(expected=large)
    assert not found(detector, steps([60.0, 9.0, 9.0, *noisy(large.step_time_s, 60)]))
    assert detector.baseline.step_time_s == pytest.approx(large.step_time_s, rel=0.03)


def test_steps_that_stay_slower_are_found_once(large):
    second = large.step_time_s
    (one,) = found(DepartureDetector(expected=large), steps(noisy(second, 40)), steps(noisy(2 * second, 80), 41))
    assert one.cause == "slower"
    assert "2 x" in one.sentence
    assert 41 < one.step <= 41 + 16
    assert one.measured_s == pytest.approx(2 * second, rel=0.1)
    assert one.was_s == pytest.approx(second, rel=0.03)


def test_a_fast_job_is_slower_only_for_some_seconds_on_end():
    fast, slow = steps([0.005] * 400), steps([0.010] * 100, 401)
    assert not found(DepartureDetector(), fast, slow, steps([0.005] * 400, 501))
    assert found(DepartureDetector(), fast, steps([0.010] * 400, 401))


def test_steps_that_grow_bit_by_bit_are_called_growing():
    times = [0.5 * 1.004**at for at in range(150)]
    assert found(DepartureDetector(), steps(times))[0].cause == "growing"


@pytest.mark.parametrize(("part", "cause"), [("all_reduce", "link"), ("gradient sync", "link"), ("tokenizer", "part")])
def test_a_part_that_explains_it_is_the_cause(part, cause):
    before = steps([1.0] * 40, parts={part: 0.2, "attention": 0.5})
    after = steps([1.6] * 40, 41, parts={part: 0.8, "attention": 0.5})
    one = found(DepartureDetector(), before, after)[0]
    assert (one.cause, one.part) == (cause, part)
    assert one.factor == pytest.approx(4.0)
    assert part in one.sentence


@pytest.mark.parametrize(
    "part", ["async_checkpoint", "commit_metrics", "recommender head", "reduce_lr", "resend_logs", "scatter_plot"]
)
def test_words_within_other_words_are_no_link(part):
    before, after = steps([1.0] * 40, parts={part: 0.2}), steps([1.6] * 40, 41, parts={part: 0.8})
    assert found(DepartureDetector(), before, after)[0].cause == "part"


@pytest.mark.parametrize("part", ["all_to_all", "AllReduce", "grad-sync", "ncclSend", "dp.all_gather"])
def test_names_of_collectives_are_the_links(part):
    assert is_link(part)


@pytest.mark.parametrize(("times", "said"), [((1.0, 5.0), "50 % of the steps take 5 s"), ((1.0, 2.0, 2.0), "2 x")])
def test_steps_that_are_slow_now_and_then_count(times, said):
    one = found(DepartureDetector(), steps([1.0] * 60), steps([*times] * 60, 61))[0]
    assert one.cause == "slower"
    assert said in one.sentence
    assert one.measured_s > 1.5


def test_evaluations_among_the_first_steps_hide_nothing():
    first = [5.0 if at in (5, 7) else 1.0 for at in range(60)]
    (one,) = found(DepartureDetector(), steps(first), steps([1.45] * 60, 61))
    assert one.was_s == 1.0
    assert one.measured_s == pytest.approx(1.45)


def test_a_few_very_slow_steps_on_end_are_none():
    assert not found(DepartureDetector(), steps([1.0] * 60), steps([20.0] * 5, 61), steps([1.0] * 60, 66))


def test_steps_that_become_faster_are_the_baseline_of_later_ones():
    (one,) = found(DepartureDetector(), steps([2.0] * 60), steps([1.0] * 140, 61), steps([2.0] * 60, 201))
    assert one.was_s == 1.0
    assert 201 < one.step <= 217


def test_recovery_is_said_and_the_link_is_what_it_was():
    detector = DepartureDetector()
    slow = steps([1.6] * 60, 61, parts={"all_reduce": 0.8})
    (one,) = found(detector, steps([1.0] * 60, parts={"all_reduce": 0.2}), slow)
    assert (one.cause, detector.link_factor) == ("link", pytest.approx(4.0))
    (back,) = found(detector, steps([1.0] * 60, 121, parts={"all_reduce": 0.2}))
    assert (back.cause, back.can_replan, detector.link_factor) == ("recovered", False, 1.0)
    assert back.sentence == "recovered: a step takes 1 s again, down from 1.6 s"


def test_slow_stretches_that_come_and_go_are_said_once():
    times = [3.0 if at % 50 >= 30 else 1.0 for at in range(1500)]
    assert [one.cause for one in found(DepartureDetector(), steps(times))] == ["slower", "recovered"]


def test_a_slow_stretch_that_stays_is_said_although_others_have_passed():
    times = [3.0 if 30 <= at < 50 or at >= 100 else 1.0 for at in range(300)]
    causes = [one.cause for one in found(DepartureDetector(), steps(times))]
    assert causes == ["slower", "recovered", "slower"]


def even(random, _):
    return random.uniform(0.7, 1.3)


def skewed(random, _):
    return random.lognormvariate(0, 0.6)


def of_two_lengths(random, _):
    return 2.0 if random.random() < 0.6 else 1.0


@pytest.mark.parametrize("draw", [even, skewed, of_two_lengths])
def test_noise_is_no_departure(draw):
    for seed in range(5):
        random = Random(seed)
        assert not found(DepartureDetector(), steps([draw(random, at) for at in range(1500)]))


def test_noise_that_lasts_is_a_departure_once_at_most():
    """Each step keeps 95 % of the deviation of the one before: standard deviation 16 %."""
    said = []
    for seed in range(10):
        random, deviation, times = Random(seed), 0.0, []
        for _ in range(1500):
            deviation = 0.95 * deviation + random.gauss(0.0, 0.05)
            times.append(1.0 + max(deviation, -0.6))
        said.append(sum(one.cause != "recovered" for one in found(DepartureDetector(), steps(times))))
    assert max(said) <= 1
    assert sum(said) <= 3


@pytest.mark.parametrize("factor", [1.5, 2.0])
def test_noisy_steps_that_become_slower_are_found(factor):
    random = Random(1)
    before, after = ([random.uniform(0.7, 1.3) for _ in range(count)] for count in (300, 200))
    one = found(DepartureDetector(), steps(before), steps([factor * time for time in after], 301))[0]
    assert 301 < one.step <= 360


def test_waiting_for_input_is_a_cause_that_no_plan_helps():
    one = found(DepartureDetector(), steps([1.0] * 40, wait_s=0.01), steps([1.5] * 40, 41, wait_s=0.5))[0]
    assert one.cause == "input"
    assert not one.can_replan


def test_longer_sequences_are_the_cause_of_steps_that_they_slow(large):
    second = large.step_time_s
    usual = steps(noisy(second, 40), sequence_length=4096)
    longer = steps(noisy(2.2 * second, 60), 41, sequence_length=8192)
    (one,) = found(DepartureDetector(expected=large), usual, longer)
    assert (one.cause, one.sequence_length) == ("sequences", 8192)
    assert "8,192 tokens per sample, expected 4,096" in one.sentence


def test_sequences_are_longer_than_the_scenario_says_from_the_beginning(large):
    one = found(DepartureDetector(expected=large), steps(noisy(large.step_time_s, 40), sequence_length=6000))[0]
    assert (one.cause, one.sequence_length) == ("sequences", 6000)


def test_sequences_that_vary_about_those_expected_are_none(large):
    lengths = [Random(1).choice((3900, 4096, 4096, 4200)) for _ in range(100)]
    job = [
        one for at, length in enumerate(lengths) for one in steps([large.step_time_s], at + 1, sequence_length=length)
    ]
    assert not found(DepartureDetector(expected=large), job)


def test_fewer_devices_are_said_once_and_then_expected(large):
    detector = DepartureDetector(expected=large)
    one = detector.see_devices(3, 5)
    assert (one.cause, one.devices) == ("devices", 3)
    assert "3 of 4" in one.sentence
    assert detector.see_devices(3, 6) is None
    assert detector.see_devices(4, 7).sentence == "more devices: 4 are running, up from 3"


def test_devices_that_nobody_knows_are_none(large):
    assert DepartureDetector(expected=large).see_devices(None, 1) is None
    assert DepartureDetector().see_devices(8, 1) is None


def test_memory_near_the_limit_is_said_once():
    detector = DepartureDetector()
    assert detector.see_memory(70e9, 80e9, 1) is None
    assert "memory is nearly full" in detector.see_memory(78e9, 80e9, 2).sentence
    assert detector.see_memory(79e9, 80e9, 3) is None
    assert DepartureDetector().see_memory(None, None, 1) is None
