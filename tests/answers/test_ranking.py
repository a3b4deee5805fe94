"""In which order several answers are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.answers.several import ranked
from sightline.errors import InputError


def test_what_fits_comes_first_and_then_the_fastest(build):
    profiles = [
        build(step_time_s=seconds, fits=fits) for seconds, fits in ((3.0, True), (1.0, False), (2.0, True), (4.0, True))
    ]
    assert ranked(profiles) == [2, 0, 3, 1]
    assert ranked(profiles, key="asked") == [0, 1, 2, 3]


def test_more_of_a_rate_and_less_of_a_time_or_price_is_better(build):
    profiles = [build(step_time_s=seconds) for seconds in (2.0, 1.0, 3.0)]
    for key in ("step_time_s", "mfu", "cost_usd", "tokens_per_s_per_device"):
        assert ranked(profiles, key=key) == [1, 0, 2]


def test_memory_and_phases_are_keys_too(build):
    memory = dict(build().memory_bytes)
    profiles = [build(memory_bytes=memory | {"total": total}) for total in (3.0, 1.0, 2.0)]
    assert ranked(profiles, key="memory_bytes.total") == [1, 2, 0]


def test_swept_keys_go_by_size_or_as_they_were_typed(build):
    profiles = [build() for _ in range(3)]
    numbers = [{"plan.micro_batch": size} for size in (4, 1, 2)]
    assert ranked(profiles, numbers, "micro_batch") == ranked(profiles, numbers, "plan.micro_batch") == [1, 2, 0]
    words = [{"plan.recompute": word} for word in ("none", "full", "none")]
    assert ranked(profiles, words, "recompute") == [0, 2, 1]


def test_unknown_figures_come_last(build, without_total_tokens):
    profiles = [build(scenario=without_total_tokens), build()]
    assert ranked(profiles, key="cost_usd") == [1, 0]


def test_a_key_that_nothing_has_is_refused(build):
    with pytest.raises(InputError, match=r"--sort is 'step_time'; allowed: asked, .* - did you mean 'step_time_s'"):
        ranked([build()], key="step_time")
    with pytest.raises(InputError, match="allowed: asked, step_time_s"):
        ranked([build()], key="xyz")


@pytest.mark.parametrize("key", ["", "asked", "hfu"])
def test_every_profile_is_ranked_once(build, key):
    @given(seconds=st.lists(st.floats(0.1, 10), min_size=1, max_size=8))
    def holds(seconds):
        assert sorted(ranked([build(step_time_s=s) for s in seconds], key=key)) == list(range(len(seconds)))

    holds()
