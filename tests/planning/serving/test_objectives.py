"""What plans that serve a load can be compared by."""

from dataclasses import replace

import pytest
from planning.serving.questions import RATE, SMALL

from sightline.errors import InputError
from sightline.planning.request_spaces import spaces_of
from sightline.planning.serving.serving_search import GOODPUT, OBJECTIVES, figures_of, objective_of, search


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_an_objective_is_called_as_it_is(name):
    assert objective_of(name) == name


@pytest.mark.parametrize("name", ["time", GOODPUT])
def test_goodput_is_what_nobody_has_to_ask_for(name):
    assert objective_of(name) == "goodput"


def test_another_word_is_answered_with_the_nearest():
    with pytest.raises(InputError, match=r"objective is 'user'; .* did you mean 'users'"):
        objective_of("user")


def test_refused_requests_yield_no_tokens_for_the_rent():
    (space,) = spaces_of(SMALL, overrides=RATE)
    trial = search([space], top=1).best(1)[0].trial
    refused = trial.profile.replace(completed=300, refused={"refused": 100}, requests_per_s=15, output_tokens_per_s=480)
    whole, rest = (
        figures_of(replace(trial, profile=profile), 0.0, stated=True)["cost_usd_per_million_tokens"]
        for profile in (trial.profile, refused)
    )
    assert rest == pytest.approx(whole * 400 / 300)
