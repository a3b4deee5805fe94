"""The view Validate in real Chromium."""

import pytest
from page_checks import assert_accessible, assert_no_sideways_scroll, ready, screenshot

pytestmark = pytest.mark.slow
SUITE = "korthikanti-2022-table5"


def test_a_chosen_suite_is_evaluated_and_its_link_shows_it(page):
    page.goto("/validate?suite=korthikanti-2023-table5")
    ready(page)
    assert "korthikanti-2023-table5" in page.locator("#f-suite-problem").inner_text()
    page.get_by_label("suite", exact=True).select_option(SUITE)
    page.get_by_role("button", name="Validate the suite").click()
    page.wait_for_selector("#answer >> text=Cases")
    page.wait_for_selector("#job", state="detached")
    assert f"suite={SUITE}" in page.url
    assert page.locator("#answer svg").count() >= 1
    assert page.locator("h1").count() == 1
    assert_accessible(page)
    screenshot(page, "validate-1280-light")
    found = page.locator("#answer").inner_text()
    with page.expect_download() as saved:
        page.get_by_role("link", name="JSON").first.click()
    assert saved.value.suggested_filename == "validation.json"
    page.goto(page.url)
    ready(page)
    assert page.locator("#answer").inner_text() == found


def test_it_fits_a_phone_and_everybody_can_use_it(phone):
    phone.goto(f"/validate?suite={SUITE}")
    phone.wait_for_selector("#answer >> text=Cases")
    assert_no_sideways_scroll(phone)
    assert_accessible(phone)
    screenshot(phone, "validate-400-dark")
