"""What sets the prediction of one plan apart from another's, in a sentence."""

from hypothesis import given
from hypothesis import strategies as st

import sightline as sl
from sightline.prediction.changes import memory_needed, more_memory_because, needs_and_step, slower_because
from sightline.profile import Profile
from sightline.quantities import GIB

QUESTION = {
    "model": "gpt-1.3b",
    "cluster": "8x h100-sxm-80gb",
    "workload": {"task": "pretrain", "sequence_length": 2048, "global_batch": 64},
    "plan": {"framework": "megatron", "micro_batch": 1},
}
PROFILE = sl.predict(sl.load(QUESTION))
SECONDS = st.floats(0.01, 10.0)


def taking(**phases: float) -> Profile:
    return PROFILE.replace(phases=phases)


@given(SECONDS, st.floats(0.1, 10.0))
def test_the_phase_that_grew_is_named_with_its_growth(seconds, more):
    said = slower_because(taking(forward=1.0, host=seconds), taking(forward=1.0, host=seconds + more))
    assert said.endswith("more waiting for the host")
    assert " and " not in said


@given(SECONDS, SECONDS)
def test_what_takes_longer_in_one_plan_takes_shorter_in_the_other(one, other):
    def said(a, b):
        return slower_because(taking(backward=a), taking(backward=b))

    if one != other:
        there, back = said(one, other), said(other, one)
        assert there.replace("more", "less") == back.replace("more", "less")
        assert ("more" in there) == (other > one)


def test_what_is_gained_elsewhere_is_told_too():
    said = slower_because(taking(forward=1.0, recompute=2.0), taking(forward=4.0, recompute=1.0))
    assert said == "3 s more time in forward passes, for 1 s less recomputation"


def test_equal_plans_take_as_long():
    assert slower_because(PROFILE, PROFILE) == "takes the same time"


def test_the_part_of_memory_that_differs_most_is_named():
    parts = {name: size + GIB * (name == "activations") for name, size in PROFILE.memory_bytes.items()}
    assert more_memory_because(PROFILE, PROFILE.replace(memory_bytes=parts)) == "1.0 GiB more activations"


def test_memory_and_time_of_a_plan_are_its_own():
    needed = memory_needed(PROFILE)
    assert f"{PROFILE.usable_bytes / GIB:.1f} GiB" in needed
    assert needs_and_step(PROFILE).startswith(f"{needed}, ")
