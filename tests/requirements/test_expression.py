"""What somebody may type as a requirement, and how what is wrong with it is said."""

import pytest
from serving_scenarios import serving
from training_scenarios import training

from sightline.errors import InputError
from sightline.requirements.expression import read, split


@pytest.fixture(scope="module")
def asked():
    return {"training": training(), "serving": serving()}


def test_lists_are_split_at_commas_and_each_requirement_is_taken_once():
    assert split(["fits,mfu>=0.35", "fits", " memory <= 70 GB "]) == ["fits", "mfu>=0.35", "memory <= 70 GB"]
    assert split("fits, mfu>=0.35") == ["fits", "mfu>=0.35"]


@pytest.mark.parametrize("nothing", ["", [], "fits,,mfu>=0.1", ","])
def test_an_empty_requirement_is_refused(nothing):
    with pytest.raises(InputError, match="--require"):
        split(nothing)


@pytest.mark.parametrize(
    ("text", "operator", "bound"),
    [
        ("fits", "", None),
        ("mfu>=0.35", ">=", 0.35),
        ("mfu >= 35 %", ">=", 0.35),
        ("memory<=70GB", "<=", 70e9),
        ("memory <= 70 GiB", "<=", 70 * 2**30),
        ("memory<=70e9", "<=", 70e9),
        ("step_time<500 ms", "<", 0.5),
        ("step_time<0.5", "<", 0.5),
        ("tokens_per_s>12 ktok/s", ">", 12e3),
        ("cost<=$10k", "<=", 10e3),
        ("energy<=3.6 MJ", "<=", 3.6e6),
        ("steps==1000", "==", 1000.0),
        ("bottleneck!=network", "!=", "network"),
    ],
)
def test_a_bound_is_read_in_the_unit_of_its_figure(asked, text, operator, bound):
    (found,) = read([text], asked["training"])
    assert (found.operator, found.bound, found.require) == (operator, pytest.approx(bound), text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mfu", "'mfu>=0.35'"),
        ("mfu>=", "no bound after >="),
        ("mfu=>0.3", "did you mean '>='?"),
        ("mfu≥0.3", "did you mean '>='?"),
        ("mfu<>0.3", "allowed: >=, <=, >, <"),
        ("mfu==0.3", "mfu is not a count"),
        ("mfu>=1.4", "a share from 0 to 1"),
        ("mfu>=[1", "a share from 0 to 1"),
        ("memory<=70", "'70 GB'"),
        ("memory<=70 GBs", "did you mean 'GB'?"),
        ("step_time<=-1", "a time 0 or more"),
        ("step_time<=nan", "a time 0 or more"),
        ("fits>=1", "write fits"),
        ("fit", "did you mean 'fits'"),
        ("bottleneck==netwrk", "did you mean 'network'?"),
        ("bottleneck>=network", "allowed: ==, !="),
        (">=3", "not a figure"),
        ("MFU>=0.35 and fits", "'MFU>=0.35,fits'"),
        ("fits && mfu>=0.3", "'fits,mfu>=0.3'"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(asked, text, said):
    with pytest.raises(InputError) as refused:
        read([text], asked["training"])
    (problem,) = refused.value.problems
    assert problem.startswith(f"--require '{text}': ")
    assert said in problem


def test_a_time_in_seconds_that_is_meant_in_milliseconds_is_refused(asked):
    with pytest.raises(InputError, match="'300 ms'"):
        read(["ttft_p90<=300"], asked["serving"])


def test_all_mistakes_are_told_at_once(asked):
    with pytest.raises(InputError) as refused:
        read(["mfuu>=1", "fits", "memory<=70"], asked["training"])
    assert len(refused.value.problems) == 2
