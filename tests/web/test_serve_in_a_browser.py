"""The view Serve in real Chromium."""

import pytest
from page_checks import assert_accessible, assert_no_sideways_scroll, opened, ready, screenshot

pytestmark = pytest.mark.slow
ASKED = (
    "/serve?model=qwen2.5-0.5b&cluster=1x+h100-sxm-80gb&workload.task=serve&workload.requests.count=100"
    "&workload.requests.prompt_tokens=256&workload.requests.output_tokens=16&workload.arrival.process=poisson"
    "&workload.arrival.rate=50&workload.slo.ttft=1+s&intervals=no"
)


def answered(page):
    """The short answer, once the load was simulated."""
    page.wait_for_selector("#answer dl.answer")
    page.wait_for_selector("#job", state="detached")
    return page.locator("#answer dl.answer").first.inner_text()


def test_a_load_is_simulated_and_its_link_shows_it(browser, server, page):
    page.goto(ASKED)
    ready(page)
    before = answered(page)
    assert "met" in before
    page.get_by_label("requests per second").fill("400")
    page.get_by_role("button", name="Simulate").click()
    page.wait_for_selector("#answer >> text=/poisson at 400/")
    after = answered(page)
    assert "workload.arrival.rate=400" in page.url
    with page.expect_download() as rows:
        page.get_by_role("link", name="Requests (CSV)").click()
    assert rows.value.suggested_filename == "requests.csv"
    with opened(browser, server) as other:
        other.goto(page.url)
        ready(other)
        assert other.locator("#answer dl.answer").first.inner_text() == after


def test_fields_follow_how_requests_arrive(page):
    page.goto(ASKED)
    ready(page)
    answered(page)
    page.get_by_label("arrivals").select_option("closed")
    assert page.get_by_label("requests per second").is_hidden()
    page.get_by_label("clients").fill("8")
    page.get_by_role("button", name="Simulate").click()
    page.wait_for_selector("#answer >> text=/8 clients/")
    assert "arrival.rate" not in page.url


def test_the_highest_rate_and_its_curve(page):
    page.goto(f"{ASKED}&find=highest+rate&think_time=10+s")
    ready(page)
    assert "capacity" in answered(page)
    assert page.locator("#curve-throughput-latency svg").count() == 1
    screenshot(page, "serve-1280-light")


def test_several_rates_offer_only_the_files_that_they_have(page):
    page.goto(f"{ASKED}&find=several+rates&rates=20,+40")
    ready(page)
    assert "met" in answered(page)
    assert page.locator("h1").count() == 1
    assert page.get_by_role("link", name="JSON").first.is_visible()
    assert page.get_by_role("link", name="Requests (CSV)").is_hidden()


def test_it_fits_a_phone_and_everybody_can_use_it(phone):
    phone.goto(ASKED)
    ready(phone)
    answered(phone)
    screenshot(phone, "serve-400-dark")
    assert_no_sideways_scroll(phone)
    assert_accessible(phone)
