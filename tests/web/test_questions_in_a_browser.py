"""Four people ask twenty-four questions in series, from an empty page: each is answered there as the command line does."""

import json
import os
import re
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from opened_files import BENCH, REQUESTS
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
    page.wait_for_selector("#answer:not([aria-busy])", state="attached")


def field_of(page, label):
    """A field of the form; automatic ones are unfolded first."""
    field = page.locator("#ask").get_by_label(label, exact=True)
    if not field.is_visible():
        page.locator("#ask .left-out summary").first.click()
    return field


def fill(page, label, value):
    """Fill a field of the form and leave it."""
    field = field_of(page, label)
    settle(page, lambda: (field.fill(value), field.press("Tab")))


def choose(page, label, value):
    settle(page, lambda: field_of(page, label).select_option(value))


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
        check=False,
        env=environment,
    )
    assert made.returncode == 0, made.stderr
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


def follow(page, link, view):
    """Press what leads to another view."""
    link.click()
    page.wait_for_url(f"**/{view}?**")
    ready(page)


def tab(page, name):
    settle(page, page.get_by_role("tab", name=name, exact=True).click)
    return page.locator("#panel")


def test_pre_training(page, tmp_path):
    page.goto("/predict")
    ready(page)
    # 1. Does it fit, and with what plan?
    page.get_by_text("Paste a config.json").click()
    settle(page, lambda: page.locator("#f-config").fill(json.dumps(CONFIG)))
    fill(page, "cluster", "64x h100-sxm-80gb")
    fill(page, "total tokens", "2e12")
    fill(page, "tensor parallel", "")
    choose(page, "ZeRO stage", "")
    agrees(page, tmp_path, *PLAN)
    page.locator("#answer").get_by_text("Search all plans").click()
    page.wait_for_url("**/plan?**")
    found_plan(page)
    follow(page, page.locator("#answer table a").first, "predict")
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
    settle(page, lambda: page.get_by_role("button", name="Pin as baseline").click())
    row = page.locator("#answer .later tr", has_text="dtype: fp8")
    row.wait_for()
    assert "numerics" in row.inner_text()
    settle(page, row.get_by_role("link", name="Try").click)
    assert "baseline" in card(page, "speed")
    agrees(page, tmp_path, *PLAN)
    settle(page, lambda: page.locator("[data-undo]").click())
    # 6. torchtitan or Megatron, both as I would run them?
    follow(page, page.get_by_role("navigation", name="Views").get_by_role("link", name="Plan", exact=True), "plan")
    fill(page, "framework", "megatron, torchtitan")
    page.get_by_role("button", name="Find the best plan").click()
    found_plan(page)
    said = words(page.locator("#answer").text_content())
    assert re.search(r"framework (torchtitan|megatron) ?[-+][\d.]+ %", said)
    follow(page, page.locator("#answer table a").first, "predict")
    # 7. Give me the files to start.
    panel = tab(page, "Files")
    text = panel.locator("pre[data-file]").first.inner_text()
    assert "torchrun" in text or "srun" in text
    assert panel.get_by_role("button", name="save").count()
    # 8. My first step took 1.9 s with tp 2, micro-batch 1: what does that change?
    fill(page, "tensor parallel", "2")
    fill(page, "micro batch", "1")
    before = card(page, "speed")
    tab(page, "Trust")
    page.locator("#f-measured").fill("1.9")
    page.get_by_role("button", name="Correct the prediction").click()
    page.wait_for_url("**anchor=**")
    ready(page)
    assert "step 1.9 s" in card(page, "speed").replace("1.90", "1.9") != before


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
    fill(page, "samples", "50000")
    fill(page, "lengths", "{distribution: lognormal, mean: 700, cv: 0.8}")
    fill(page, "adapter", "{kind: qlora, rank: 16}")
    agrees(page, tmp_path, *PLAN)
    # 10. If not, what is the smallest change?
    page.wait_for_selector("#answer .later table")
    if "no" in card(page, "fits"):
        change = page.locator("#answer .later tr", has=page.get_by_role("link", name="Try")).first
        settle(page, change.get_by_role("link", name="Try").click)
    assert "yes" in card(page, "fits")
    # 11. How long?
    assert re.search(r"[\d.]+ (h|hours|days|min)", card(page, "cost"))
    agrees(page, tmp_path, *PLAN)
    # 12. Would two 3090s be faster?
    settle(page, lambda: page.get_by_role("button", name="Pin as baseline").click())
    fill(page, "cluster", "2x rtx-3090")
    assert re.search(r"(faster|slower|more|less)", card(page, "speed"))
    agrees(page, tmp_path, *PLAN)
    settle(page, lambda: page.locator("[data-undo]").click())
    # 13. LLaMA-Factory's YAML for it.
    panel = tab(page, "Files")
    panel.get_by_text("with llama-factory").click()
    assert any("finetuning_type: lora" in text for text in panel.locator("pre").all_text_contents())
    # 14. It ran out of memory at step 40: why could that be?
    panel = tab(page, "Memory")
    assert "GiB" in panel.locator("h3:has-text('runs out of memory later') ~ p").first.inner_text()


def test_serving(page, tmp_path):
    page.goto("/serve")
    ready(page)
    fill(page, "model", "qwen3-235b-a22b-fp8")
    fill(page, "cluster", "8x h200-sxm-141gb")
    fill(page, "prompt tokens", "3000")
    fill(page, "output tokens", "500")
    fill(page, "TPOT at most", "40 ms")
    # 16. With which engine and layout, and the command? 17. Disaggregated?
    follow(page, page.get_by_role("navigation", name="Views").get_by_role("link", name="Plan", exact=True), "plan")
    page.get_by_role("button", name="Find the best plan").click()
    found_plan(page)
    said = words(page.locator("#answer").text_content())
    assert re.search(r"framework (vllm|sglang|tensorrt-llm) ?[-+][\d.]+ %", said)
    assert re.search(r"disaggregate no ?[-+][\d.]+ %", said)
    assert page.locator("#answer pre[data-file]").count()
    agrees(page, tmp_path, *PLAN, using=("plan", "--objective", "goodput"))
    rate = float(re.search(r"up to ([\d.]+) requests per second", said)[1])
    follow(page, page.locator("#answer table a").first, "serve")
    answered(page)
    # 15. How many users do 8 x H200 serve?
    choose(page, "find", "highest rate")
    fill(page, "users think for", "30 s")
    simulate(page, "users")
    highest = re.search(r"up to ([\d.]+) requests per second", words(page.locator("#answer").inner_text()))[1]
    assert f"at {highest}/s" in command("simulate", scenario_file(page, tmp_path), "--capacity")
    # 18. What happens at twice the rate?
    choose(page, "find", "this load")
    fill(page, "requests per second", f"{2 * rate:g}")
    simulate(page, "SLO missed")
    agrees(page, tmp_path, *PLAN, using=("simulate",))
    # 21. A picture of rate against latency for my boss.
    choose(page, "find", "several rates")
    fill(page, "rates", f"{rate / 2:g}, {rate:g}, {2 * rate:g}")
    simulate(page, f"{rate / 2:g}")
    assert page.locator("#answer svg").count()
    # 19. Here is my trace of a day: does it hold?
    choose(page, "find", "this load")
    open_file(page, "day.csv", REQUESTS)
    answered(page)
    assert "SLO" in page.locator("#answer").inner_text()
    # 20. Here is my `vllm bench` result: how far off are you, and what now?
    page.go_back()
    ready(page)
    open_file(page, "bench.json", json.dumps(BENCH))
    page.wait_for_selector("#answer:has-text('anchored to bench.json')")


def answered(page):
    """Wait for the cards of an answer whose work is done."""
    page.wait_for_selector('#answer [data-card="speed"]')
    page.wait_for_selector("#job", state="detached")


def simulate(page, shown):
    """Simulate the load, and wait for what is shown then."""
    page.get_by_role("button", name="Simulate").click()
    page.wait_for_selector(f"#answer:has-text('{shown}')")
    page.wait_for_selector("#job", state="detached")


def open_file(page, name, text):
    with page.expect_file_chooser() as chosen:
        page.get_by_role("button", name="Open", exact=True).click()
    before = page.url
    chosen.value.set_files({"name": name, "mimeType": "text/plain", "buffer": text.encode()})
    page.wait_for_url(lambda url: url != before)
    ready(page)


def test_hardware(page, tmp_path):
    # 22. What would a 3 nm chip with six HBM4 stacks bring over B200?
    page.goto("/predict")
    ready(page)
    fill(page, "model", "llama-3.1-405b")
    fill(page, "cluster", "64x b200-sxm-180gb")
    fill(page, "tensor parallel", "8")
    settle(page, lambda: page.get_by_role("button", name="Pin as baseline").click())
    page.locator("#ask").get_by_text("Imagined device").click()
    choose(page, "process node", "3nm")
    choose(page, "memory", "hbm4")
    fill(page, "memory stacks", "6")
    assert re.search(r"(faster|slower) than the baseline", card(page, "speed"))
    agrees(page, tmp_path, *PLAN)
    # 23. Where does it bind, and what would the next dollar buy?
    assert "%" in card(page, "bound")
    panel = tab(page, "Sweep")
    panel.get_by_role("heading", name="Effect of raising an input").wait_for()
    # 24. How sure are you?
    panel = tab(page, "Trust")
    assert "80 %" in card(page, "speed")
    assert "measured" in panel.inner_text()
    # And of decode.
    choose(page, "task", "generate")
    page.wait_for_url("**workload.output_tokens=**")
    agrees(page, tmp_path, *PLAN)
