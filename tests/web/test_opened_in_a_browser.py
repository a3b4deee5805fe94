"""Files that are dropped on the page, chosen or pasted, in real Chromium."""

import json

import pytest
from opened_files import BENCH, CONFIG, REQUESTS, SERVED
from page_checks import assert_accessible, ready, screenshot

pytestmark = pytest.mark.slow


def drop(page, name, text):
    """Drop a file with a text anywhere on the page."""
    data = page.evaluate_handle(
        """([name, text]) => {
            const data = new DataTransfer();
            data.items.add(new File([text], name));
            return data;
        }""",
        [name, text],
    )
    page.dispatch_event("body", "dragover", {"dataTransfer": data})
    assert page.get_by_text("Drop to open").is_visible()
    page.dispatch_event("body", "drop", {"dataTransfer": data})


def test_a_config_is_dropped_on_the_page(page):
    page.goto("/predict")
    ready(page)
    drop(page, "config.json", json.dumps(CONFIG))
    page.wait_for_url("**/predict?config=**")
    ready(page)
    assert "config.json" in page.locator("#opened").inner_text()
    assert_accessible(page)
    screenshot(page, "opened-config-1280-light")
    page.get_by_label("global batch").fill("64")
    page.wait_for_selector("#opened", state="detached")


def test_a_result_is_dropped_and_the_next_change_keeps_it(page):
    page.goto("/predict?" + "&".join(f"{key}={value}" for key, value in GENERATED.items()))
    ready(page)
    drop(page, "bench.json", json.dumps(BENCH))
    page.wait_for_url("**anchor=**")
    ready(page)
    assert "2 measurements took" in page.locator("#opened").inner_text()
    page.get_by_label("batch", exact=True).fill("16")
    page.wait_for_selector('html[data-answered="1"]')
    page.get_by_role("tab", name="Trust").click()
    page.wait_for_selector("#panel >> text=anchored to bench.json")
    assert "anchor=" in page.url


GENERATED = {
    **{key: SERVED[key] for key in ("model", "cluster")},
    "workload.task": "generate",
    "workload.batch": "8",
    "workload.prompt_tokens": "1024",
    "workload.output_tokens": "128",
}


def test_a_trace_is_chosen_and_something_else_is_told(page, tmp_path):
    page.goto("/serve")
    ready(page)
    junk, trace = tmp_path / "junk.txt", tmp_path / "day.csv"
    junk.write_text("hello\nworld")
    trace.write_text(REQUESTS)
    for path in (junk, trace):
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Open", exact=True).click()
        chooser.value.set_files(path)
        if path is junk:
            page.wait_for_selector("#opened.bad >> text=not recognized")
    page.wait_for_url("**/serve?**trace**")
    page.wait_for_selector("#answer dl")
    assert "day.csv" in page.locator("#opened").inner_text()
    assert not page.get_by_label("prompt tokens").is_visible()


def test_a_command_is_pasted(page):
    page.goto("/predict")
    ready(page)
    page.evaluate(
        """() => {
            const data = new DataTransfer();
            data.setData("text", "vllm serve Qwen/Qwen3-32B -tp 4");
            document.body.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
        }"""
    )
    page.wait_for_url("**/predict?model=qwen3-32b**")
    ready(page)
    assert page.get_by_label("model", exact=True).input_value() == "qwen3-32b"


def test_a_measured_step_is_typed_and_forgotten(page):
    page.goto("/predict?model=llama-3-8b&cluster=8x+h100-sxm-80gb&workload.global_batch=64&tab=trust")
    ready(page)
    page.get_by_label("measured value").fill("5.5")
    page.get_by_role("button", name="Correct the prediction").click()
    page.wait_for_url("**anchor=**measured.step_time_s**")
    ready(page)
    assert_accessible(page)
    screenshot(page, "anchored-1280-light")
    assert "anchored to" in page.locator("#answer").inner_text()
    page.get_by_role("button", name="Forget").click()
    page.wait_for_url(lambda address: "anchor=" not in address)
    ready(page)
    assert "anchored to" not in page.locator("#answer").inner_text()
