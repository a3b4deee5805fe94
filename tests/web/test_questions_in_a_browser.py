"""Four people ask twenty-four questions in series, from an empty page: each is answered there as the command line does."""

import json
import os
import re
import subprocess
import sys
from urllib.parse import parse_qsl, urlsplit

import pytest
from page_checks import ready

pytestmark = pytest.mark.slow
CONFIG = {
    "model_type": "llama",
    "hidden_size": 5120,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "intermediate_size": 13824,
    "vocab_size": 128256,
}
PLAN = ("fits", "speed", "bound", "cost")


def words(text):
    return " ".join(text.split())


def settle(page, change):
    """Make a change, and wait for its answer."""
    before = page.evaluate("Number(document.documentElement.dataset.answered ?? 0)")
    change()
    page.wait_for_function("before => Number(document.documentElement.dataset.answered ?? 0) > before", arg=before)
    page.wait_for_selector("#answer:not([aria-busy])")


def fill(page, label, value):
    """Fill a field of the form and leave it."""
    field = page.locator("#ask").get_by_label(label, exact=True)
    settle(page, lambda: (field.fill(value), field.press("Tab")))


def choose(page, label, value):
    settle(page, lambda: page.locator("#ask").get_by_label(label, exact=True).select_option(value))


def card(page, name):
    return words(page.locator(f'#answer [data-card="{name}"]').first.inner_text())


def scenario_file(page, tmp_path):
    """The scenario at hand, as its file is saved."""
    found = page.request.get(f"/predict/scenario.yaml?{urlsplit(page.url).query}")
    assert found.ok
    path = tmp_path / "scenario.yaml"
    path.write_text(found.text())
    return path


def command(*arguments):
    """What the command line prints, in one line."""
    environment = {**os.environ, "COLUMNS": "200"}
    made = subprocess.run(
        [sys.executable, "-m", "sightline", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return words(made.stdout)


def agrees(page, tmp_path, *cards, using=("predict",)):
    """Check that the command line says what the cards of the page say."""
    said = command(*using, scenario_file(page, tmp_path))
    for name in cards:
        value = words(page.locator(f'#answer [data-card="{name}"] .value').first.inner_text())
        assert value in said, (name, value, said[:600])


def found_plan(page):
    """Wait for the answer of a search."""
    page.wait_for_selector('#answer [data-card="speed"]')


def tab(page, name):
    settle(page, page.get_by_role("tab", name=name).click)
    return page.locator("#panel")


def test_pre_training(page, tmp_path):
    page.goto("/predict")
    ready(page)
    # 1. Does it fit, and with what plan?
    page.get_by_text("Paste a config.json").click()
    settle(page, lambda: page.locator("#f-config").fill(json.dumps(CONFIG)))
    fill(page, "cluster", "64x h100-sxm-80gb")
    fill(page, "total tokens", "2e12")
    fill(page, "global batch", "512")
    fill(page, "tensor parallel", "")
    choose(page, "ZeRO stage", "")
    agrees(page, tmp_path, *PLAN)
    page.locator("#answer").get_by_text("Search all plans").click()
    page.wait_for_url("**/plan?**")
    found_plan(page)
    page.locator("#answer table a").first.click()
    page.wait_for_url("**/predict?**")
    ready(page)
    assert card(page, "fits").startswith(("fits yes", "Fits yes"))
    # 2. How many days and dollars? 3. What binds it?
    agrees(page, tmp_path, *PLAN)
    assert re.search(r"days", card(page, "cost"))
    # 4. What if I had 32, 128 devices?
    tab(page, "Sweep")
    settle(page, lambda: (page.locator("#f-values1").fill("32, 64, 128"), page.locator("#f-values1").press("Tab")))
    rows = [words(row) for row in page.locator("#panel tbody tr").all_inner_texts()]
    file = scenario_file(page, tmp_path)
    for count in (32, 128):
        said = command("predict", file, "--set", f"cluster={count}x h100-sxm-80gb", "--set", "plan.data_parallel=null")
        shown = next(row for row in rows if row.startswith(f"{count}x"))
        assert re.search(r"[\d.,]+ m?s|[\d.]+ min", shown)[0] in said
    # 5. What does fp8 bring, and what does it risk?
    tab(page, "Time")
    page.wait_for_selector("#answer .later table")
    row = page.locator("#answer .later tr", has_text="dtype: fp8")
    assert "numerics" in row.inner_text()
    settle(page, lambda: page.get_by_role("button", name="Pin as baseline").click())
    page.wait_for_selector("#answer .later table")
    settle(page, page.locator("#answer .later tr", has_text="dtype: fp8").get_by_role("link", name="Try").click)
    assert "baseline" in card(page, "speed")
    agrees(page, tmp_path, *PLAN)
    settle(page, lambda: page.locator("[data-undo]").click())


def test_fine_tuning(page, tmp_path):
    page.goto("/predict")
    ready(page)
    # 9. Does it fit?
    choose(page, "task", "finetune")
    fill(page, "model", "qwen3-8b")
    fill(page, "cluster", "1x rtx-4090")
    fill(page, "tensor parallel", "")
    choose(page, "ZeRO stage", "")
    fill(page, "sequence length", "4096")
    fill(page, "global batch", "16")
    fill(page, "adapter", "{kind: qlora, rank: 16}")
    agrees(page, tmp_path, *PLAN)


def test_hardware(page, tmp_path):
    # 22. What would a 3 nm chip with six HBM4 stacks bring over B200?
    page.goto("/predict")
    ready(page)
    fill(page, "model", "llama-3.1-405b")
    fill(page, "cluster", "64x b200-sxm-180gb")
    agrees(page, tmp_path, *PLAN)


def address(page):
    return dict(parse_qsl(urlsplit(page.url).query))
