"""Other plans beside the best one: what each loses, or why it does not serve."""

import pytest

from sightline.answers import plan_sentences


def test_other_choices_lose_or_do_not_fit(answer, answer_of_large) -> None:
    losses = [one.loss for one in answer.neighbours]
    assert losses == sorted(losses, key=lambda loss: (loss is None, loss or 0.0))
    changed = {key for one in answer.neighbours for key in one.set}
    assert "plan.tensor_parallel" in changed
    assert all("requests per second instead of" in one.sentence for one in answer.neighbours if one.loss is not None)
    unfit = next(one for one in answer_of_large.neighbours if one.set == {"plan.tensor_parallel": 1})
    assert unfit.loss is None
    assert "does not fit" in unfit.sentence


def test_a_change_is_that_of_the_objective_itself(answer) -> None:
    rates = {str(one.set): one for one in answer.neighbours if one.loss is not None}
    best = answer.plans[0].figures["capacity_requests_per_s"]
    said = [*plan_sentences.neighbours(answer), *plan_sentences.gains(answer)]
    for (_, change, sentence), one in zip([row for row in said if row[1] != "-"], rates.values(), strict=True):
        its = float(sentence.partition("up to ")[2].partition(" ")[0])
        assert float(change.removesuffix(" %")) == pytest.approx(100 * (its / best - 1), abs=1)
        assert (float(change.removesuffix(" %")) < 0) == (one.loss > 0)
