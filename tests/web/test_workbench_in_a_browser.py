"""What every view shares, in real Chromium: undo, Back, the pinned baseline, tabs, the tray, and two tabs of a browser."""

from urllib.parse import urlencode

import pytest
from page_checks import assert_accessible, assert_no_barriers, assert_no_sideways_scroll, opened, ready, screenshot

pytestmark = pytest.mark.slow
SMALL = "model=qwen2.5-0.5b&cluster=4x+h100-sxm-80gb"
LOAD = "model=qwen2.5-0.5b&cluster=1x+h100-sxm-80gb&workload.task=serve&workload.requests.count=100&workload.arrival.rate=50&intervals=no"
PAIR = urlencode(
    {
        name: f"{SMALL}&workload.sequence_length=4096&workload.global_batch={size}"
        for name, size in {"a": 64, "b": 128}.items()
    }
)
VIEWS = {
    "predict": "/predict",
    "unfit": "/predict?model=llama-3.1-405b&cluster=8x+h100-sxm-80gb",
    "plan": f"/plan?{SMALL}",
    "serve": f"/serve?{LOAD}",
    "explain": f"/explain?{SMALL}",
    "explore": "/explore?study=dram",
    "compare": f"/compare?{PAIR}",
    "runs": "/runs",
    "catalog": "/catalog?kind=devices",
    "validate": "/validate?suite=korthikanti-2022-table5",
    "reproduce": "/reproduce",
    "watch": "/watch",
}
CARD = '#answer [data-card="fits"] .value'
VERDICTS = {"predict": CARD, "unfit": "#answer .block.bad > p", "plan": CARD, "serve": CARD}
"""What stands on the first screen."""
SCREENS = {"1440": (1440, 900, 1), "860": (860, 800, 1), "400": (400, 800, 1), "zoom": (720, 450, 2)}
"""Width, height and pixels per pixel; a zoom of 200 % halves a screen of 1440 x 900."""


def shown(page):
    return page.locator("#answer dl.answer").inner_text()


def settle(page, change):
    """Make a change and wait for its answer."""
    before = page.evaluate("document.documentElement.dataset.answered ?? '0'")
    change()
    page.wait_for_function("before => document.documentElement.dataset.answered > before", arg=before)
    page.wait_for_selector("#answer:not([aria-busy])")


def test_undo_redo_and_back_take_one_step_for_each_settled_change(page):
    page.goto("/predict")
    ready(page)
    first = shown(page)
    batch = page.get_by_label("global batch", exact=True)
    settle(page, lambda: (batch.press("End"), batch.press_sequentially("0", delay=10)))
    settle(page, lambda: batch.press("Tab"))
    assert batch.input_value() == "1280"
    second = shown(page)
    settle(page, lambda: page.locator("[data-undo]").click())
    assert (batch.input_value(), shown(page)) == ("128", first)
    settle(page, lambda: page.locator("[data-redo]").click())
    assert (batch.input_value(), shown(page)) == ("1280", second)
    page.locator("#answer").focus()
    settle(page, lambda: page.keyboard.press("Control+z"))
    assert shown(page) == first
    settle(page, page.go_forward)
    settle(page, page.go_back)
    assert shown(page) == first


def test_differences_are_told_to_a_pinned_baseline(page):
    page.goto("/predict")
    ready(page)
    settle(page, lambda: page.get_by_role("button", name="Pin as baseline").click())
    settle(page, lambda: page.get_by_label("tensor parallel", exact=True).fill("4"))
    assert "baseline" in shown(page)
    settle(page, lambda: page.get_by_role("button", name="Unpin").click())
    assert "baseline" not in shown(page)


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_fits_every_screen_in_both_themes(browser, server, view):
    for name, (width, height, scale) in SCREENS.items():
        options = {"viewport": {"width": width, "height": height}, "device_scale_factor": scale, "bypass_csp": True}
        with opened(browser, server, **options) as page:
            page.goto(VIEWS[view])
            ready(page)
            if view != "reproduce":  # which is empty until a source is chosen
                page.wait_for_selector("#answer > :not(script, .form-state, .links)", state="attached")
            page.wait_for_selector("#job", state="detached")
            if view in VERDICTS:
                verdict = page.locator(VERDICTS[view]).first.bounding_box()
                assert verdict["y"] + verdict["height"] <= height, name
            for theme in ("light", "dark"):
                page.emulate_media(color_scheme=theme)
                assert_no_sideways_scroll(page)
                assert_no_barriers(page)
                screenshot(page, f"{view}-{name}-{theme}")


@pytest.mark.parametrize("width", [400, 1440])
def test_tabs_show_one_part_each_and_are_accessible(browser, server, width):
    with opened(browser, server, viewport={"width": width, "height": 850}, bypass_csp=True) as page:
        page.goto("/predict")
        ready(page)
        for name in ("Memory", "Roofline", "Timeline", "Sweep", "Trust", "Files"):
            settle(page, page.get_by_role("tab", name=name, exact=True).click)
            assert page.get_by_role("tab", name=name, exact=True).get_attribute("aria-selected") == "true"
            assert page.locator("#panel").inner_text().strip() or page.locator("#panel svg").count()
            assert_no_sideways_scroll(page)
            assert_no_barriers(page)


def test_a_sweep_varies_two_fields_and_its_slider_sets_one(page):
    page.goto("/predict?tab=sweep")
    ready(page)
    settle(page, lambda: page.get_by_label("vary").select_option("plan.micro_batch"))
    assert page.locator("#panel svg").count()
    settle(page, lambda: page.locator("#f-vary2").select_option("plan.zero_stage"))
    assert page.locator("#panel svg").count()
    slider = page.locator('[data-slides="plan.micro_batch"]')
    settle(page, lambda: slider.press("ArrowRight"))
    assert page.locator("#ask").get_by_label("micro batch", exact=True).input_value() == "2"


def test_the_last_scenarios_are_chips_and_two_of_them_are_compared(page):
    page.goto("/predict")
    ready(page)
    settle(page, lambda: page.get_by_label("tensor parallel", exact=True).fill("4"))
    chips = page.locator("#tray .chip")
    assert chips.count() == 2
    chips.nth(1).drag_to(chips.nth(0))
    page.wait_for_url("**/compare?**")
    page.wait_for_selector("#answer table")
    assert_accessible(page)


def test_two_tabs_have_a_scenario_each(browser, server):
    with opened(browser, server) as page:
        page.goto("/predict")
        ready(page)
        other = page.context.new_page()
        other.goto(
            "/predict?model=llama-2-7b&cluster=8x+a100-sxm-80gb&workload.task=pretrain&workload.sequence_length=2048&workload.global_batch=64"
        )
        ready(other)
        settle(page, lambda: page.get_by_label("tensor parallel", exact=True).fill("4"))
        assert other.locator("#sentence").inner_text().startswith("Train llama-2-7b")
        assert page.locator("#sentence").inner_text().startswith("Train llama-3-8b")


def test_a_stale_link_says_what_is_wrong_and_the_form_can_mend_it(page):
    page.goto(
        "/predict?model=llama-9&cluster=8x+h100-sxm-80gb&workload.task=pretrain&workload.sequence_length=8192&workload.global_batch=128"
    )
    ready(page)
    assert "llama-9" in page.locator(".field-problem:not(:empty)").first.inner_text()
    settle(page, lambda: (page.get_by_label("model", exact=True).fill("llama-3-8b"), page.keyboard.press("Tab")))
    assert "tokens/s" in shown(page)
