"""Findings that are several statements."""

from sightline.reproduction.outcomes import judged


def test_the_share_that_holds_is_judged_and_what_fails_is_named():
    interpretation = judged(
        {"water is wet": True, "fire is cold": False}, "Two things were tried.", {"light": "by day"}
    )
    assert interpretation.values == [0.5]
    assert interpretation.sentence == "Two things were tried. Not so: fire is cold."
    assert interpretation.choices == {"light": "by day"}


def test_nothing_is_named_where_all_hold():
    assert judged({"water is wet": True}, "One.").sentence == "One."
