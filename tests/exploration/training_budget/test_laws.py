"""Laws of the loss: the best model of a budget is best, and publications' own figures come out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.exploration.training_budget import LAWS, PF_DAY, ChinchillaLaw, flops_to_match, tokens_of

CHINCHILLA = [law for law in LAWS.values() if isinstance(law, ChinchillaLaw)]
FLOPS = st.floats(1e18, 1e28)


@pytest.mark.parametrize("law", CHINCHILLA, ids=lambda law: law.name)
@given(flops=FLOPS, other=st.floats(0.1, 10))
def test_no_other_size_of_the_same_compute_has_less_loss(law, flops, other):
    best = law.best_parameters(flops)
    least = law.loss(best, tokens_of(flops, best))
    assert least <= law.loss(other * best, tokens_of(flops, other * best)) * (1 + 1e-12)
    assert least > law.irreducible


@pytest.mark.parametrize("law", LAWS.values(), ids=lambda law: law.name)
@given(flops=FLOPS)
def test_more_compute_means_a_larger_model_and_less_loss(law, flops):
    small, large = law.best_parameters(flops), law.best_parameters(10 * flops)
    assert large > small
    assert law.loss(large, tokens_of(10 * flops, large)) < law.loss(small, tokens_of(flops, small))


def test_the_new_fit_agrees_with_chinchilla_itself():
    # 70B parameters on 1.4T tokens, by which arXiv 2404.10102 judges the old fit.
    flops = 6 * 70e9 * 1.4e12
    best = LAWS["chinchilla-2024"].best_parameters(flops)
    assert tokens_of(flops, best) / best == pytest.approx(20, rel=0.2)
    old = LAWS["chinchilla-2022"].best_parameters(flops)
    assert tokens_of(flops, old) / old > 60


def test_kaplan_trains_larger_models_on_fewer_tokens():
    flops = 1e4 * PF_DAY
    kaplan, chinchilla = (LAWS[name].best_parameters(flops) for name in ("kaplan-2020", "chinchilla-2024"))
    # Table 6 of arXiv 2001.08361 says the tokens too.
    assert tokens_of(flops, kaplan) == pytest.approx(2e10 * 1e4**0.27, rel=0.5)
    assert kaplan > 5 * chinchilla


@given(flops=FLOPS)
def test_the_best_ratio_reaches_a_loss_with_the_least_compute(flops):
    law = LAWS["chinchilla-2024"]
    best = law.best_parameters(flops)
    ratio = tokens_of(flops, best) / best
    loss = law.loss(best, tokens_of(flops, best))
    needed = flops_to_match(law, loss, ratio * np.array([0.2, 1.0, 5.0, 50.0]))
    assert needed[1] == pytest.approx(flops, rel=1e-6)
    assert needed[0] > needed[1] < needed[2] < needed[3]


def test_a_loss_below_the_least_is_never_reached():
    law = LAWS["chinchilla-2024"]
    assert np.isinf(flops_to_match(law, law.irreducible, 20.0))
