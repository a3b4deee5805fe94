"""A requirement is met or not, and the sentence says so with the figure, its interval and the bound."""

import pytest
from generation_scenarios import generation
from training_scenarios import training

from sightline.prediction import predict
from sightline.requirements.check import judged
from sightline.requirements.expression import read


@pytest.fixture(scope="module")
def profile():
    """A step of 2 s, between 1.8 s and 2.3 s, with an MFU of 0.41."""
    found = predict(training(model="llama-2-7b", cluster="8x a100-sxm-80gb", global_batch=64))
    interval = {"step_time_s": (1.8, 2.3), "mfu": (0.37, 0.45), "memory_bytes.total": (50e9, 90e9)}
    memory = {**found.memory_bytes, "total": 60e9}
    return found.replace(
        step_time_s=2.0, mfu=0.41, interval=interval, memory_bytes=memory, usable_bytes=80e9, fits=True
    )


def verdict(profile, text, **how):
    (requirement,) = read([text], profile.scenario)
    return judged(requirement, profile, **how)


@pytest.mark.parametrize(
    ("text", "met", "in_whole"),
    [
        ("mfu>=0.35", True, True),
        ("mfu>=0.41", True, False),
        ("mfu>0.41", False, False),
        ("mfu>=0.40", True, False),
        ("mfu<=0.45", True, True),
        ("mfu<0.45", True, False),
        ("mfu>=0.42", False, False),
        ("step_time<=2.3", True, True),
        ("step_time<=2.1", True, False),
        ("step_time<=1.9", False, False),
        ("fits", True, False),
    ],
)
def test_the_figure_decides_or_its_whole_interval(profile, text, met, in_whole):
    assert verdict(profile, text).met is met
    assert verdict(profile, text, whole_interval=True).met is in_whole


def test_the_sentence_has_figure_interval_bound_and_verdict(profile):
    said = "mfu is 0.41 (80 % interval 0.37 to 0.45); required: at least 0.35: met"
    assert verdict(profile, "mfu>=0.35").sentence == said
    said = "mfu is 0.41 (80 % interval 0.37 to 0.45); required: at least 0.4 over the whole interval: not met"
    assert verdict(profile, "mfu>=0.4", whole_interval=True).sentence == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mfu>=35 %", "mfu is 41 % (80 % interval 37 to 45 %); required: at least 35 %"),
        ("step_time<=2500 ms", "step_time is 2,000 ms (80 % interval 1,800 to 2,300 ms); required: at most 2,500 ms"),
        ("step_time<=2.5", "step_time is 2 s (80 % interval 1.8 to 2.3 s); required: at most 2.5 s"),
        ("step_time<500", "step_time is 2 s (80 % interval 1.8 to 2.3 s); required: less than 500 s"),
        ("tokens_per_s>=5", "tokens_per_s is 65,500 tokens/s; required: at least 5 tokens/s"),
        ("step_time>0.0005", "step_time is 2 s (80 % interval 1.8 to 2.3 s); required: more than 500 us"),
        ("memory<=70GB", "memory is 60 GB (80 % interval 50 to 90 GB); required: at most 70 GB"),
        ("memory<=70 GiB", "memory is 55.9 GiB (80 % interval 46.6 to 83.8 GiB); required: at most 70 GiB"),
    ],
)
def test_figures_are_written_in_the_unit_of_the_bound(profile, text, said):
    assert verdict(profile, text).sentence == f"{said}: met"


def test_a_figure_next_to_its_bound_has_the_digits_that_tell_them_apart(profile):
    close = profile.replace(mfu=0.349996)
    assert verdict(close, "mfu>=0.35").sentence.startswith("mfu is 0.349996 (")


def test_of_a_figure_without_interval_nothing_is_sure(profile):
    found = verdict(profile.replace(interval={}), "mfu>=0.1", whole_interval=True)
    assert not found.met
    assert "(no interval)" in found.sentence
    assert verdict(profile.replace(interval={}), "mfu>=0.1").met


def test_an_interval_without_an_upper_end_meets_lower_bounds_alone(profile):
    bound = profile.replace(interval={"step_time_s": (1.8, None)})
    assert verdict(bound, "step_time>=1.5", whole_interval=True).met
    assert not verdict(bound, "step_time<=9", whole_interval=True).met
    assert "(80 % interval from 1.8 s)" in verdict(bound, "step_time<=9").sentence


def test_what_the_scenario_states_needs_no_interval(profile):
    assert verdict(profile, "usd_per_hour<=1000", whole_interval=True).met


def test_a_plan_that_does_not_fit_is_said_with_both_sizes(profile):
    found = verdict(profile.replace(fits=False, memory_bytes={"total": 100 * 2**30}, interval={}), "fits")
    assert (found.met, found.value) == (False, False)
    assert found.sentence == "fits is false: needs 100.0 of 74.5 GiB: not met"


def test_what_is_offloaded_may_not_fit_into_the_hosts(profile):
    assert "offloaded" in verdict(profile.replace(fits=False), "fits").sentence


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cost<=10000", "workload.total_tokens"),
        ("run_time<=30 days", "workload.total_tokens"),
    ],
)
def test_an_unknown_figure_is_not_met_and_says_why(profile, text, why):
    found = verdict(profile, text)
    assert (found.met, found.value) == (False, None)
    assert "is unknown" in found.sentence
    assert why in found.sentence


def test_words_and_parts_are_required_too(profile):
    bound = profile.bottleneck
    assert verdict(profile, f"bottleneck=={bound}", whole_interval=True).met
    assert not verdict(profile, f"bottleneck!={bound}").met
    assert verdict(profile, "phases.host<=1 h").met
    assert verdict(profile, "memory.weights>0.1 GB").met


def test_generation_has_figures_of_its_own():
    found = verdict(predict(generation()), "ttft<=10 s")
    assert found.met
    assert found.key == "ttft_s"
