"""The view Explore in real Chromium: from a list of studies to a link of what one found."""

from urllib.parse import urlencode

import pytest
from page_checks import assert_accessible, assert_no_sideways_scroll, opened, ready, screenshot

pytestmark = pytest.mark.slow
DRAM = "Latency of generation by memory technology, on an A100-class device"
OWN = "/explore?study=own&model=qwen2.5-0.5b&cluster=8x+h100-sxm-80gb"


def title(page, text):
    """Wait for the title of a study that is done."""
    page.wait_for_selector(f'#answer h2 >> text="{text}"')
    page.wait_for_selector("#job", state="detached")
    return page.locator("#answer > p").first.inner_text()


def test_a_study_is_chosen_and_its_link_shows_it_at_once(browser, server, page):
    page.goto("/explore?study=dram")
    ready(page)
    title(page, DRAM)
    page.get_by_label("bound-by").check()
    page.wait_for_selector("form.job")
    page.get_by_role("button", name="Run the study").click()
    said = title(page, "Bottleneck of each matmul of a layer, by device and memory level")
    assert page.locator("#answer .drawn svg").count() >= 1
    screenshot(page, "explore-1280-light")
    with page.expect_download() as saved:
        page.get_by_role("link", name="CSV", exact=True).click()
    assert saved.value.suggested_filename == "study.csv"
    with opened(browser, server, color_scheme="dark") as other:
        other.goto(page.url)
        ready(other)
        assert other.locator("form.job").count() == 0
        assert title(other, "Bottleneck of each matmul of a layer, by device and memory level") == said
        assert other.get_by_label("bound-by").is_checked()
        screenshot(other, "explore-1280-dark")


def test_a_study_of_ones_own_tells_its_mistakes_and_then_answers(page):
    page.goto(OWN)
    ready(page)
    title(page, "A study of my own")
    axes = page.get_by_label("axes: any keys")
    axes.fill("cluster.device.memory_bandwidth: 2x")
    page.wait_for_selector("#f-axes-problem >> text=/a list of values/")
    assert axes.get_attribute("aria-invalid") == "true"
    axes.fill("cluster.device.memory_bandwidth: [1x, 2x]\nplan.micro_batch: [1, 2]")
    page.wait_for_selector("#f-axes:not([aria-invalid])")
    page.get_by_role("button", name="Run the study").click()
    page.wait_for_selector("#answer >> text=/micro batch 2/")
    page.wait_for_selector("#job", state="detached")
    assert "micro_batch" in page.url
    screenshot(page, "explore-own-1280-light")
    page.get_by_label("dram").check()
    assert page.locator("#f-axes").is_hidden()
    assert page.get_by_label("keys of its scenario").is_visible()


def test_a_study_that_is_stopped_shows_the_points_until_then(page):
    span = "{from: 1 TB/s, to: 60 TB/s, factor: 1.02}\ncluster.device.peak_flops: {from: 1x, to: 60x, factor: 1.02}"
    asked = {
        "axes": f"cluster.device.memory_bandwidth: {span}",
        "search": "tensor_parallel, pipeline_parallel, micro_batch",
        "quick": "no",
    }
    page.goto(f"{OWN}&{urlencode(asked)}")
    page.wait_for_selector("#job >> text=/[1-9][0-9,]* of 42,849/")
    page.get_by_role("button", name="Stop").click()
    page.wait_for_selector("#answer >> text=/A part of the answer: stopped while .*, at [1-9][0-9,]* of 42,849/")
    assert "Stopped after" in page.locator("#answer").inner_text()
    assert page.get_by_role("link", name="CSV", exact=True).is_visible()


def test_it_fits_a_phone_and_everybody_can_use_it(phone):
    phone.goto("/explore?study=dram")
    ready(phone)
    title(phone, DRAM)
    assert "model=" not in phone.url
    screenshot(phone, "explore-400-dark")
    assert_no_sideways_scroll(phone)
    phone.goto(OWN)
    ready(phone)
    title(phone, "A study of my own")
    screenshot(phone, "explore-own-400-dark")
    assert_no_sideways_scroll(phone)
    assert_accessible(phone)
