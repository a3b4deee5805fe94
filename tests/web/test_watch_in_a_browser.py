"""The views Watch and Catalog in real Chromium: a job that runs is followed, and stays readable on a phone."""

import threading

import pytest
from page_checks import assert_accessible, assert_no_sideways_scroll, opened, ready, running, screenshot

import sightline as sl

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """A server, and a job that takes steps until the event is set; its id."""
    place = str(tmp_path_factory.mktemp("watched"))
    scenario = "examples/llama-2-7b-zero2-8xa800.yaml"
    end, begun = threading.Event(), threading.Event()
    found = {}

    def job():
        with sl.watch(scenario, store=place, show=False, replan=False, every_s=0.1) as watch:
            found["id"] = watch.id
            begun.set()
            while not end.wait(0.05):
                watch.step(loss=2.0)

    thread = threading.Thread(target=job)
    thread.start()
    assert begun.wait(60)
    with running(environment={"SIGHTLINE_RUNS": place}) as (address, _):
        yield address, found["id"], end
    end.set()
    thread.join()


def test_a_job_is_followed_until_it_ends(browser, followed):
    address, name, end = followed
    with opened(browser, address) as page:
        page.goto("/watch")
        ready(page)
        page.get_by_role("link", name="Llama-2-7B").click()
        page.wait_for_selector("#answer .drawn svg")
        page.wait_for_function("() => Number(document.documentElement.dataset.answered) >= 3")
        assert name in page.url
        assert_accessible(page)
        screenshot(page, "watch-1280-light")
        end.set()
        page.wait_for_selector("#answer >> text=Its run")
    with opened(browser, address, viewport={"width": 400, "height": 850}, color_scheme="dark") as phone:
        phone.goto(f"/watch?job={name}")
        ready(phone)
        assert_no_sideways_scroll(phone)
        assert_accessible(phone)
        screenshot(phone, "watch-400-dark")


def test_the_catalog_leads_from_a_device_to_a_prediction(page, phone):
    page.goto("/catalog")
    ready(page)
    page.get_by_role("link", name="devices", exact=True).click()
    page.get_by_label("with the word").fill("h200")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="h200-sxm-141gb", exact=True).click()
    page.wait_for_selector("#answer h2 >> text=h200-sxm-141gb")
    assert_accessible(page)
    address = page.url
    page.get_by_role("link", name="Predict with it").click()
    ready(page)
    assert "h200-sxm-141gb" in page.locator("#answer").inner_text()
    phone.goto(address)
    ready(phone)
    assert_no_sideways_scroll(phone)
    assert_accessible(phone)
    screenshot(phone, "catalog-400-dark")
