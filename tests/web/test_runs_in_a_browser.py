"""The view Runs & compare in real Chromium."""

import pytest
from page_checks import assert_accessible, assert_no_sideways_scroll, opened, ready, running, screenshot
from stored_runs import filled

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A server with four runs: its address, and the ids of those of training."""
    place = tmp_path_factory.mktemp("stored")
    _, ids = filled(place / "runs")
    environment = {"SIGHTLINE_RUNS": str(place / "runs"), "SIGHTLINE_JOBS": str(place / "jobs")}
    with running(environment=environment) as (address, _):
        yield address, ids


def test_a_run_is_opened_and_compared_and_each_state_is_a_link(browser, stored):
    address, ids = stored
    with opened(browser, address) as page:
        page.goto("/runs")
        ready(page)
        screenshot(page, "runs-1280-light")
        page.get_by_role("link", name="a small step", exact=True).click()
        page.wait_for_url(f"**/runs?run={ids[0]}")
        page.wait_for_selector("#answer svg")
        assert page.get_by_label("run", exact=True).input_value() == ids[0]
        page.get_by_label("compared with").select_option(ids[1])
        page.wait_for_selector('html[data-answered="2"]')
        assert f"with={ids[1]}" in page.url
        compared = page.locator("#answer .answer").inner_text()
        assert page.locator("#answer svg").count() >= 1
        page.goto(page.url)
        ready(page)
        assert page.locator("#answer .answer").inner_text() == compared
        assert page.get_by_label("compared with").input_value() == ids[1]
        screenshot(page, "compare-1280-light")
        page.go_back()
        page.wait_for_url(f"**/runs?run={ids[0]}")
        page.go_back()
        page.wait_for_selector("text=4 runs in")


def test_a_phone_shows_everything_without_scrolling_sideways(browser, stored):
    address, ids = stored
    with opened(browser, address, viewport={"width": 400, "height": 850}, color_scheme="dark") as phone:
        for query in (f"?run={ids[0]}", f"?run={ids[0]}&with=predicted", ""):
            phone.goto(f"/runs{query}")
            ready(phone)
            assert_no_sideways_scroll(phone)
        assert_accessible(phone)
        screenshot(phone, "runs-400-dark")
