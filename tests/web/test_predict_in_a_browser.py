"""The view Predict in real Chromium."""

import csv
import io
import json
from collections import Counter

import pytest
from page_checks import assert_accessible, assert_no_sideways_scroll, drawn_again, opened, ready, screenshot
from waiting import until

from sightline.render.csv import csv_of

pytestmark = pytest.mark.slow
GENERATE = "/predict?model=llama-3-8b&cluster=2x+h100-sxm-80gb&workload.task=generate&workload.batch=4&workload.prompt_tokens=512&workload.output_tokens=64"


def answered(page, count=1):
    page.wait_for_selector(f'html[data-answered="{count}"]')


def test_the_answer_follows_a_change_and_the_address_keeps_it(page):
    page.goto("/predict")
    ready(page)
    assert page.locator("#predict-time svg").count() == 1
    before = page.locator("#answer .answer").inner_text()
    page.get_by_label("ZeRO stage").select_option("3")
    answered(page)
    after = page.locator("#answer .answer").inner_text()
    assert after != before
    assert "plan.zero_stage=3" in page.url
    assert "plan.zero_stage=3" in page.get_by_role("link", name="Predict", exact=True).get_attribute("href")
    page.goto(page.url)
    ready(page)
    assert page.locator("#answer .answer").inner_text() == after
    assert page.get_by_label("ZeRO stage").input_value() == "3"
    page.wait_for_selector("text=What limits it")
    screenshot(page, "predict-1280-light")


def test_mistakes_stand_next_to_their_fields_and_the_last_answer_stays(page):
    page.goto("/predict")
    ready(page)
    field = page.get_by_label("tensor parallel")
    field.fill("3")
    field.blur()
    answered(page)
    assert "plan.tensor_parallel" in page.locator(".field", has=field).locator(".field-problem").inner_text()
    assert field.get_attribute("aria-invalid") == "true"
    assert page.locator("#answer.stale .answer").count() == 1
    screenshot(page, "predict-mistake")
    field.fill("4")
    field.blur()
    page.wait_for_selector("#answer:not(.stale)")
    assert field.get_attribute("aria-invalid") is None


def test_a_task_has_its_own_fields_and_going_back_restores_the_page(page):
    page.goto("/predict")
    ready(page)
    page.get_by_label("task").select_option("generate")
    answered(page)
    assert page.get_by_label("prompt tokens").is_visible()
    assert page.get_by_label("ZeRO stage").count() == 0 or not page.get_by_label("ZeRO stage").is_visible()
    assert "workload.batch=16" in page.url
    assert "zero_stage" not in page.url
    shown = page.locator("#answer .answer").inner_text()
    page.locator(".changes").get_by_role("link", name="Try").first.click()
    answered(page, 2)
    assert page.locator("#answer .answer").inner_text() != shown
    page.go_back()
    answered(page, 3)
    assert page.locator("#answer .answer").inner_text() == shown


def test_a_pasted_config_is_a_model(page):
    config = {
        "model_type": "llama",
        "hidden_size": 1024,
        "num_hidden_layers": 4,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        "vocab_size": 32000,
    }
    page.goto(GENERATE)
    ready(page)
    page.get_by_text("Paste a config.json").click()
    page.locator("#f-config").fill(json.dumps(config))
    answered(page)
    assert "your config.json" in page.locator("#sentence").inner_text()
    address = page.url
    page.goto(address)
    ready(page)
    assert json.loads(page.locator("#f-config").input_value()) == config


def test_only_the_newest_question_is_answered(page):
    page.goto(GENERATE)
    ready(page)
    pending = Counter()
    page.on("request", lambda one: pending.update([one.url]))
    for event in ("requestfinished", "requestfailed"):
        page.on(event, lambda one: pending.subtract([one.url]))
    field = page.get_by_label("batch", exact=True)
    for batch in (1, 2, 8, 32):
        field.fill(str(batch))
        field.dispatch_event("change")
    page.wait_for_selector("#sentence:has-text('32 x 512')")
    until(lambda: drawn_again(page) and not +pending)
    assert "32 x 512" in page.locator("#sentence").inner_text()


def test_answers_are_saved_as_files(page):
    page.goto(f"{GENERATE}&tab=files")
    ready(page)
    for name, ending in {"JSON": "json", "CSV": "csv", "Scenario": "yaml", "Report": "html"}.items():
        with page.expect_download() as found:
            page.locator("#answer .tools").get_by_role("link", name=name).first.click()
        assert found.value.suggested_filename.endswith(f".{ending}")
    page.goto(GENERATE)
    ready(page)
    with page.expect_download() as found:
        page.get_by_role("button", name="save the chart as SVG").first.click()
    assert found.value.suggested_filename == "predict-time.svg"


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "dark"), (400, "light")])
def test_everybody_can_use_it_on_every_screen(browser, server, width, scheme):
    with opened(browser, server, viewport={"width": width, "height": 900}, color_scheme=scheme) as page:
        page.goto("/predict")
        ready(page)
        page.wait_for_selector("text=What limits it")
        screenshot(page, f"predict-{width}-{scheme}")
        assert_no_sideways_scroll(page)
        assert_accessible(page)


def test_it_works_by_keyboard_and_without_the_script(browser, server):
    with opened(browser, server, java_script_enabled=False) as page:
        page.goto("/predict")
        page.get_by_label("ZeRO stage").select_option("2")
        page.get_by_role("button", name="Predict").click()
        assert "plan.zero_stage=2" in page.url
        assert page.locator("#answer .answer").count() == 1
    with opened(browser, server) as page:
        page.goto("/predict")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        assert page.url.endswith("#answer")


def test_the_numbers_of_a_chart_are_those_of_the_command_line(page):
    page.goto("/predict")
    ready(page)
    # Parts that come after the answer have drawings of their own.
    found = [json.loads(text) for text in page.locator("#answer script.drawings").all_text_contents()]
    wide, _ = next(drawings["predict-time"] for drawings in found if "predict-time" in drawings)
    with page.expect_download() as saved:
        page.locator("figure", has=page.locator("#predict-time")).get_by_role("button", name="CSV").click()
    lines = list(csv.DictReader(io.StringIO(saved.value.path().read_text(encoding="utf-8"))))
    expected = list(csv.DictReader(io.StringIO(csv_of(wide))))
    assert [list(line) for line in lines] == [list(line) for line in expected]
    assert len(lines) > 3
    for line, other in zip(lines, expected, strict=True):
        for one, told in zip(line.values(), other.values(), strict=True):
            assert one == told or float(one) == pytest.approx(float(told))


def test_the_best_plan_of_what_was_typed_is_one_press_away(page):
    page.goto("/predict")
    ready(page)
    # Who presses before the prediction is there takes along what was typed all the same.
    page.get_by_label("model", exact=True).fill("qwen2.5-0.5b")
    page.get_by_role("link", name="Find the best plan").click()
    page.wait_for_url("**/plan?**model=qwen2.5-0.5b**")
    page.wait_for_selector('#answer dl.answer >> text="best plan"')
