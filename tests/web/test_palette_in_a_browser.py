"""Fields that find what is typed, steps of numbers and the command palette, by keyboard alone in real Chromium."""

from urllib.parse import parse_qs, urlsplit

import pytest
from page_checks import assert_accessible, assert_no_sideways_scroll, opened, ready, screenshot

pytestmark = pytest.mark.slow


def asked(page, key):
    """What the address says of a key."""
    return parse_qs(urlsplit(page.url).query).get(key, [""])[0]


def wait_for(page, key, value):
    page.wait_for_url(lambda url: parse_qs(urlsplit(url).query).get(key, [""])[0] == value)


def options(page):
    """The options of the list that is open."""
    return page.locator("[role=listbox]:visible [role=option]")


def marked(page):
    """The name of the option that the focused text points to."""
    return page.evaluate(
        "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))?.firstChild.textContent"
    )


def choose(page, name):
    """Go down the open list to an option and take it."""
    options(page).first.wait_for()
    for _ in range(options(page).count() + 1):
        if marked(page) == name:
            break
        page.keyboard.press("ArrowDown")
    assert marked(page) == name
    page.keyboard.press("Enter")


@pytest.mark.parametrize(
    ("field", "typed", "chosen", "key", "value"),
    [
        ("model", "Qwen3", "qwen3-8b", "model", "qwen3-8b"),
        ("model", "meta-llama/Llama-3.1-8B", "llama-3.1-8b", "model", "llama-3.1-8b"),
        ("cluster", "64x nvidia h200", "64x h200-sxm-141gb", "cluster", "64x h200-sxm-141gb"),
        ("cluster", "h200", "8x h200-sxm-141gb", "cluster", "8x h200-sxm-141gb"),
    ],
)
def test_a_field_finds_makers_and_repositories_and_asks_once_a_choice_is_made(page, field, typed, chosen, key, value):
    page.goto("/predict")
    ready(page)
    page.get_by_label(field, exact=True).focus()
    page.keyboard.press("Control+a")
    page.keyboard.type(typed)
    options(page).first.wait_for()
    assert page.locator(".field-problem:not(:empty)").count() == 0
    assert asked(page, key) in ("", "llama-3-8b", "8x h100-sxm-80gb")
    choose(page, chosen)
    wait_for(page, key, value)
    page.wait_for_selector("#answer:not(.stale):not([aria-busy])")


def test_a_choice_that_was_undone_can_be_made_again(page):
    page.goto("/predict")
    ready(page)
    for _ in range(2):
        page.get_by_label("model", exact=True).focus()
        page.keyboard.press("Control+a")
        page.keyboard.type("mixtral-8x7b")
        choose(page, "mixtral-8x7b")
        wait_for(page, "model", "mixtral-8x7b")
        page.go_back()
        page.wait_for_function("document.querySelector('input[name=model]').value === 'llama-3-8b'")


def test_a_field_is_judged_when_it_is_left_and_escape_closes_its_list_alone(page):
    page.goto("/predict")
    ready(page)
    page.get_by_label("model", exact=True).focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("llama-3-8")
    options(page).first.wait_for()
    page.keyboard.press("Escape")
    assert options(page).count() == 0
    assert page.get_by_label("model", exact=True).input_value() == "llama-3-8"
    assert page.locator(".field-problem:not(:empty)").count() == 0
    page.keyboard.press("Tab")
    page.wait_for_selector(".field-problem:not(:empty)")
    assert "tokens/s" in page.locator("#answer.stale").inner_text()


def test_numbers_and_counts_of_devices_double_and_halve(page):
    page.goto("/predict")
    ready(page)
    page.get_by_label("sequence length").focus()
    page.keyboard.press("ArrowUp")
    wait_for(page, "workload.sequence_length", "16384")
    page.get_by_label("total tokens").fill("2T")
    page.keyboard.press("ArrowDown")
    wait_for(page, "workload.total_tokens", "1T")
    page.get_by_label("cluster", exact=True).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    wait_for(page, "cluster", "16x h100-sxm-80gb")


def test_fields_of_the_plan_that_nobody_set_are_folded_and_counted(page):
    page.goto("/predict")
    ready(page)
    fold = page.locator(".left-out > summary")
    count = int(fold.inner_text().split()[0])
    assert not page.get_by_label("pipeline parallel").is_visible()
    fold.focus()
    page.keyboard.press("Enter")
    page.get_by_label("pipeline parallel").focus()
    page.keyboard.press("ArrowUp")
    wait_for(page, "plan.pipeline_parallel", "2")
    fold.focus()
    page.keyboard.press("Enter")
    assert page.get_by_label("pipeline parallel").is_visible()
    assert int(fold.inner_text().split()[0]) == count - 1


def test_a_label_says_what_its_field_means(page):
    page.goto("/predict")
    ready(page)
    page.locator(".field", has=page.get_by_label("tensor parallel")).locator(".help").focus()
    page.keyboard.press("Enter")
    page.get_by_text("plan.tensor_parallel").wait_for()
    page.keyboard.press("Escape")
    assert not page.get_by_text("plan.tensor_parallel").is_visible()


@pytest.mark.parametrize(
    ("typed", "name", "key", "value"),
    [
        ("use llama-3-70b", "use llama-3-70b", "model", "llama-3-70b"),
        ("use nvidia h200", "use 8x h200-sxm-141gb", "cluster", "8x h200-sxm-141gb"),
        ("rtx-4090 catalog", "rtx-4090", "name", "rtx-4090"),
    ],
)
def test_the_palette_sets_the_scenario_and_opens_the_catalog(page, typed, name, key, value):
    page.goto("/predict")
    ready(page)
    page.keyboard.press("Control+k")
    page.keyboard.type(typed)
    page.wait_for_function("name => document.querySelector('[role=listbox]')", arg=name)
    choose(page, name)
    wait_for(page, key, value)


def test_the_palette_does_what_buttons_do_goes_to_views_and_gives_the_focus_back(page):
    page.goto("/predict")
    ready(page)
    page.get_by_label("global batch").focus()
    page.keyboard.press("Control+k")
    page.keyboard.press("Escape")
    assert page.get_by_label("global batch").evaluate("one => one === document.activeElement")
    page.keyboard.press("ArrowUp")
    wait_for(page, "workload.global_batch", "256")
    page.keyboard.press("Control+k")
    page.keyboard.type("undo")
    choose(page, "Undo")
    wait_for(page, "workload.global_batch", "128")
    page.keyboard.press("Control+k")
    page.keyboard.type("plan view")
    choose(page, "Plan")
    page.wait_for_url("**/plan?**")


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (860, "dark"), (400, "dark")])
def test_everybody_can_use_the_lists(browser, server, width, scheme):
    with opened(browser, server, viewport={"width": width, "height": 800}, color_scheme=scheme) as page:
        page.goto("/predict")
        ready(page)
        assert_accessible(page)
        page.locator("[data-palette]").focus()
        page.keyboard.press("Enter")
        page.keyboard.type("h200")
        options(page).first.wait_for()
        screenshot(page, f"palette-{width}-{scheme}")
        assert_no_sideways_scroll(page)
