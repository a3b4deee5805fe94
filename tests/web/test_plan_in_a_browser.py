"""The view Plan in real Chromium: from a model and a cluster to a link of the best plan."""

import re

import pytest
from page_checks import assert_accessible, assert_no_sideways_scroll, opened, ready, screenshot

pytestmark = pytest.mark.slow
LONG = "/plan?model=llama-3-70b&cluster=1024x+h100-sxm-80gb&workload.global_batch=2048&launchable=no"
ASKED = "/plan?model=qwen2.5-0.5b&cluster=4x+h100-sxm-80gb"
BEST = "#answer dl.answer"


def best(page):
    """The short answer, once the search is done."""
    page.wait_for_selector(f'{BEST} >> text="best plan"')
    page.wait_for_selector("#job", state="detached")
    return page.locator(BEST).first.inner_text()


def test_a_new_user_gets_a_link_of_the_best_plan(browser, server, page):
    page.goto("/plan")
    ready(page)
    page.get_by_label("model", exact=True).fill("qwen2.5-0.5b")
    page.get_by_label("cluster", exact=True).fill("2x h100-sxm-80gb")
    page.get_by_role("button", name="Find the best plan").click()
    page.wait_for_selector("#answer >> text=/qwen2.5-0.5b .*2 x h100/")
    found = best(page)
    assert "2 x h100-sxm-80gb" in found
    assert page.locator("#answer .drawn svg").count() >= 1
    screenshot(page, "plan-1280-light")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Share").click()
    link = page.evaluate("navigator.clipboard.readText()")
    assert "model=qwen2.5-0.5b" in link
    with opened(browser, server) as other:
        other.goto(link)
        ready(other)
        assert other.locator("form.job").count() == 0
        assert other.locator(BEST).first.inner_text() == found
        other.get_by_role("link", name="plan 1 in full").click()
        other.wait_for_url(re.compile("/predict"))
        ready(other)
        assert "step" in other.locator('#answer [data-card="speed"]').inner_text()
        other.go_back()
        ready(other)
        assert other.locator(BEST).first.inner_text() == found


def test_a_search_that_is_stopped_shows_what_it_found(page):
    page.goto(LONG)
    page.wait_for_selector("#job >> text=/ of /")
    page.get_by_role("button", name="Stop").click()
    page.wait_for_selector("#answer >> text=/A part of the answer: stopped (while|after) searching/")
    assert "evaluated" in page.locator("#answer").inner_text()
    assert "stale" not in (page.locator("#answer").get_attribute("class") or "")
    assert page.get_by_role("button", name="Stop").count() == 0
    assert_accessible(page)
    screenshot(page, "plan-stopped-1280-light")
    page.reload()
    ready(page)
    assert "A part of the answer" in page.locator("#answer").inner_text()
    page.get_by_role("button", name="Find the best plan").click()
    page.get_by_role("button", name="Stop").click()


def test_nothing_is_searched_before_somebody_asks(page):
    page.goto("/predict?model=qwen2.5-0.5b&cluster=3x+h100-sxm-80gb&workload.task=pretrain")
    ready(page)
    for is_link in (True, False):
        page.get_by_role("link", name="Plan", exact=True).click() if is_link else page.goto("/plan")
        ready(page)
        page.wait_for_selector("#job >> text=/Nothing runs yet. .* press .Find the best plan./")
        assert page.get_by_role("button", name=re.compile("^(Find|Start)")).count() == 1


def test_a_mistake_stands_next_to_its_field(page):
    page.goto(ASKED)
    ready(page)
    best(page)
    field = page.get_by_label("model", exact=True)
    field.fill("qwen2.5-0.6b")
    field.blur()
    page.wait_for_selector(".field-problem >> text=/did you mean/")
    assert field.get_attribute("aria-invalid") == "true"
    field.fill("qwen2.5-0.5b")
    field.blur()
    page.wait_for_selector('input[name="model"]:not([aria-invalid])')


def test_what_runs_it_can_be_saved(page):
    page.goto(ASKED)
    ready(page)
    best(page)
    with page.expect_download() as saved:
        page.get_by_role("button", name="save launch.sh").click()
    assert saved.value.suggested_filename == "launch.sh"
    with page.expect_download() as table:
        page.get_by_role("link", name="CSV", exact=True).click()
    assert table.value.suggested_filename == "plans.csv"


def test_it_fits_a_phone_and_everybody_can_use_it(phone):
    phone.goto(ASKED)
    ready(phone)
    best(phone)
    screenshot(phone, "plan-400-dark")
    assert_no_sideways_scroll(phone)
    assert_accessible(phone)
