"""The view Validate in real Chromium."""

import pytest
from page_checks import assert_accessible, assert_no_sideways_scroll, ready, screenshot

pytestmark = pytest.mark.slow
SUITE = "korthikanti-2022-table5"
SCENARIO = (
    "model=llama-3-70b&cluster=64x+h100-sxm-80gb&workload.task=pretrain&workload.sequence_length=4096"
    "&workload.global_batch=256&plan.framework=megatron"
)


def test_a_prediction_is_judged_before_suites(page):
    page.goto(f"/predict?{SCENARIO}")
    ready(page)
    page.get_by_role("navigation", name="Views").get_by_text("More").click()
    page.get_by_role("link", name="Validate", exact=True).click()
    page.wait_for_url("**/validate?**")
    ready(page)
    found = page.locator("#answer")
    assert "Evidence for this result" in found.inner_text()
    assert "same device and framework" in found.inner_text()
    assert page.locator("form.job").count() == 0
    assert_accessible(page)
    screenshot(page, "validate-scenario-1280-light")
    page.get_by_label("framework", exact=True).select_option("torchtitan")
    page.wait_for_selector("#answer >> text=/same (device|framework)\\)/")


def test_a_chosen_suite_is_evaluated_and_its_link_shows_it(page):
    page.goto("/validate?suite=korthikanti-2023-table5")
    ready(page)
    assert "korthikanti-2023-table5" in page.locator("#f-suite-problem").inner_text()
    page.get_by_label("suite", exact=True).select_option(SUITE)
    page.wait_for_selector("#job >> text=/Nothing runs yet/")
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
