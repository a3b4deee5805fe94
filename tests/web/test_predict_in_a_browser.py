"""The view Predict in real Chromium."""

import pytest
from page_checks import assert_accessible, assert_no_sideways_scroll, ready, screenshot

pytestmark = pytest.mark.slow


def test_the_answer_follows_a_change_and_the_address_keeps_it(page):
    page.goto("/predict")
    ready(page)
    assert page.locator("#predict svg").count() == 1
    before = page.locator("#answer").inner_text()
    page.get_by_label("ZeRO stage").select_option("3")
    page.wait_for_selector('html[data-answered="1"]')
    assert page.locator("#answer").inner_text() != before
    assert "plan.zero_stage=3" in page.url
    after = page.locator("#answer").inner_text()
    page.goto(page.url)
    ready(page)
    assert page.locator("#answer").inner_text() == after
    screenshot(page, "predict-1280-light")


def test_it_fits_a_phone_and_everybody_can_use_it(phone):
    phone.goto("/predict")
    ready(phone)
    screenshot(phone, "predict-400-dark")
    assert_no_sideways_scroll(phone)
    assert_accessible(phone)
