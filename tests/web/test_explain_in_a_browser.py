"""The view Explain in real Chromium."""

from pathlib import Path

import pytest
from page_checks import assert_accessible, assert_no_sideways_scroll, opened, ready, running, screenshot
from stored_runs import filled

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A server with a measured run: its address, and the run's id."""
    place = tmp_path_factory.mktemp("explained")
    _, ids = filled(place / "runs")
    environment = {"SIGHTLINE_RUNS": str(place / "runs"), "SIGHTLINE_JOBS": str(place / "jobs")}
    with running(environment=environment) as (address, _):
        yield address, ids[0]


def test_a_change_is_explained_unfolded_and_advice_opens_predict(browser, stored):
    with opened(browser, stored[0]) as page:
        page.goto("/explain")
        ready(page)
        page.get_by_label("ZeRO stage").select_option("3")
        page.wait_for_selector('html[data-answered="1"]')
        assert "plan.zero_stage=3" in page.url
        page.locator("summary", has_text="forward").first.click()
        page.locator("#answer details[open] details summary").first.click()
        assert page.get_by_role("columnheader", name="bound by").first.is_visible()
        said = page.locator("#answer .answer").inner_text()
        screenshot(page, "explain-1280-light")
        assert_accessible(page)
        page.locator(".changes").get_by_role("link", name="Try").first.click()
        page.wait_for_url("**/predict?**")
        ready(page)
        page.go_back()
        ready(page)
        assert page.locator("#answer .answer").inner_text() == said


def test_a_phone_explains_a_run(browser, stored):
    address, run = stored
    with opened(browser, address, viewport={"width": 400, "height": 850}, color_scheme="dark") as phone:
        phone.goto(f"/runs?run={run}")
        ready(phone)
        phone.locator(".tools").get_by_role("link", name="Explain").click()
        phone.wait_for_url(f"**/explain?run={run}")
        ready(phone)
        assert phone.locator("[id^=explained] svg").count() == 1
        assert_no_sideways_scroll(phone)
        screenshot(phone, "explain-run-400-dark")


def test_a_trace_is_sent_explained_and_seen_again_by_its_link(browser, stored):
    trace = Path(__file__).parents[2] / "examples" / "traces" / "slow-loader.json.gz"
    with opened(browser, stored[0]) as page:
        page.goto("/explain")
        ready(page)
        page.get_by_label("PyTorch trace").set_input_files(trace)
        page.get_by_role("button", name="Explain the trace").click()
        page.wait_for_url("**/explain?**trace=**")
        page.wait_for_selector("#answer >> text=Trace slow-loader.json.gz")
        assert "num_workers" in page.locator("#answer").text_content()
        assert page.locator("[id^=explained] svg").count() == 1
        assert_accessible(page)
        screenshot(page, "explain-trace-1280-light")
        found = page.locator("#answer").inner_text()
        page.reload()
        ready(page)
        assert page.locator("#answer").inner_text() == found


def test_a_stored_run_is_chosen(browser, stored):
    address, run = stored
    with opened(browser, address) as page:
        page.goto("/explain")
        ready(page)
        page.get_by_label("stored run", exact=True).select_option(run)
        page.get_by_role("button", name="Explain the run").click()
        page.wait_for_url(f"**/explain?run={run}")
        ready(page)
        assert "measured" in page.locator("#answer").inner_text()
