"""The four cards of a headline, what they say against a baseline, and one line for each change, in every medium."""

import re
from html import unescape

import pytest
from made_profiles import make_profile
from rendered import text

import sightline as sl
from sightline.answers.changes import what_to_change
from sightline.answers.outline import BAD, FAINT, GOOD, Link
from sightline.answers.profile import profile_outline, short_answer
from sightline.answers.summary import interval_of
from sightline.explanation.answer import Advice
from sightline.explanation.explain import changes_of
from sightline.render.html import outline_piece
from sightline.render.markdown import outline_markdown

FP8 = Advice(
    set={"plan.dtype": "fp8"},
    gain_s=0.5,
    gain=0.4,
    sentence="With fp8 it is faster.",
    command="sightline predict FILE --set plan.dtype=fp8",
    risks=("changes_numerics",),
    memory_bytes=2.0**34,
)
ZERO = Advice(set={"plan.zero_stage": 3}, gain_s=-0.1, gain=-0.08, sentence="ZeRO-3 fits.", command="", risks=())


@pytest.fixture(params=["training", "generation"])
def answer(request, profile, generation):
    return {"training": profile, "generation": generation}[request.param]


def test_every_medium_has_the_same_four_cards_in_the_same_order(answer):
    outline = profile_outline(answer)
    cards = [line for line in outline.said if line.value]
    assert [card.key for card in cards] == ["fits", "speed", "bound", "cost"]
    assert "per million tokens" in cards[-1].value
    page = outline_piece(outline).html
    assert re.findall('data-card="(.*?)"', page) == [card.key for card in cards]
    for medium in (text(outline, 400), outline_markdown(outline)):
        places = [medium.replace("\\", "").index(card.says) for card in cards]
        assert places == sorted(places)
        assert all(
            part in unescape(page).replace("\u00a0", " ")
            for card in cards
            for part in (card.detail, card.value.partition(" ")[0])
        )


def test_cards_say_their_difference_to_a_baseline(profile):
    faster = profile.replace(step_time_s=float(profile.step_time_s) / 1.6)
    cards = {line.key: line for line in short_answer(faster, profile)}
    assert (cards["speed"].change.partition(" than")[0], cards["speed"].change_kind) == ("38 % faster", GOOD)
    assert (cards["cost"].change.partition(" than")[0], cards["cost"].change_kind) == ("37 % cheaper", GOOD)
    assert cards["fits"].change == "as the baseline"
    slower = {line.key: line for line in short_answer(profile, faster)}
    assert (slower["speed"].change.partition(" than")[0], slower["speed"].change_kind) == ("60 % slower", BAD)
    assert not any(line.change for line in short_answer(profile))


def test_a_plan_that_does_not_fit_is_grey_and_says_how_much_it_lacks(too_large):
    fits, *others = [line for line in short_answer(too_large) if line.value]
    assert (fits.kind, fits.value) == (BAD, "no")
    assert "1.4 x the memory" in fits.detail
    assert all(line.kind == FAINT and "if it fitted" in line.detail for line in others)
    html = outline_piece(profile_outline(too_large, changes=[FP8, ZERO])).html
    assert html.index("zero_stage: 3") < html.index("dtype: fp8") < html.index('data-card="fits"')
    assert "style=" not in html


def test_an_interval_has_the_unit_of_its_figure():
    near = make_profile(step_time_s=123.0, interval={"step_time_s": (96.4, 155.0)})
    assert interval_of(near, "step_time_s") == "1.61 to 2.58 min"
    assert interval_of(make_profile(interval={"step_time_s": (1.25, 1.25)}), "step_time_s") == ""


def test_changes_are_lines_with_what_tries_and_pins_them(profile, too_large):
    def rows(own, advice):
        (block,) = what_to_change(own, advice, link=lambda one: f"/predict?n={len(one.set)}", search="/plan?n=1")
        return block.made[1].rows

    first, second, last = rows(profile, [FP8, ZERO])
    assert first[:4] == ["zero_stage: 3", "8 % slower", "-", "none"]
    assert second[:4] == ["dtype: fp8", "40 % faster", "16.0 GiB", "numerics: check quality"]
    assert [(one.text, one.address, one.pins) for one in first[4:] if isinstance(one, Link)] == [
        ("Try", "/predict?n=1", False),
        ("Pin", "n=1", True),
    ]
    assert last[0].address == "/plan?n=1"
    assert rows(too_large, [FP8])[0][0].address == "/plan?n=1"


def test_a_change_of_the_numerics_is_never_the_first_advice_for_memory():
    asked = {
        "model": "llama-3.1-70b",
        "cluster": "2x h100-sxm-80gb",
        "workload": {"task": "generate", "batch": 16, "prompt_tokens": 1024, "output_tokens": 128},
        "plan": {"tensor_parallel": 1, "replicas": 2},
    }
    profile = sl.predict(sl.load(asked))
    risky = ["changes_numerics" in one.risks for one in changes_of(profile)]
    assert profile.fits is False
    assert risky == sorted(risky)
    assert risky[0] is False
