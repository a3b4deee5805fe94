"""Work of the page in real Chromium: seen from other views, and after its server was killed."""

import os
import re
import signal

import pytest
from page_checks import assert_accessible, assert_no_sideways_scroll, opened, ready, running
from waiting import PATIENCE_S

pytestmark = pytest.mark.slow
LONG = (
    "/plan?model=llama-3-70b&cluster=1024x+h100-sxm-80gb&workload.global_batch=2048&launchable=no"
    "&plan.framework=megatron,deepspeed,fsdp&plan.optimizer=adamw,sgd,muon&plan.dtype=bf16,fp16"
)
RUNS = "#job >> text=/searching: .* of /"


@pytest.fixture
def page(browser, tmp_path):
    """A page of a server that does no other work."""
    with running(environment={"SIGHTLINE_JOBS": str(tmp_path)}) as (address, _), opened(browser, address) as found:
        yield found


def test_work_is_seen_and_stopped_from_another_view(page):
    page.goto(LONG)
    page.wait_for_selector(RUNS)
    assert page.locator("#jobs details").count() == 0  # it stands above the answer here
    page.goto("/predict")
    ready(page)
    page.locator("#jobs summary", has_text="1 running").click()
    shown = page.locator("#jobs li", has_text="Plan: llama-3-70b on 1024x h100-sxm-80gb")
    shown.get_by_text(re.compile("so far, about .* left; best: .* tokens/s")).wait_for()
    page.set_viewport_size({"width": 400, "height": 800})
    assert_no_sideways_scroll(page)
    assert_accessible(page)
    shown.get_by_role("button", name="stop Plan").click()
    shown.get_by_text("stopped", exact=True).wait_for()
    shown.get_by_role("link").click()
    page.wait_for_selector("#answer >> text=/A part of the answer/")
    page.goto("/predict")
    ready(page)
    assert page.locator("#jobs details").count() == 0


def test_a_view_says_so_when_its_server_was_killed_and_goes_on_with_the_next_one(browser, tmp_path):
    environment = {"SIGHTLINE_JOBS": str(tmp_path)}
    page = browser.new_context().new_page()
    page.set_default_timeout(1000 * PATIENCE_S)
    with running(environment=environment) as (address, process):
        page.goto(f"{address}{LONG}")
        page.wait_for_selector(RUNS)
        os.kill(process.pid, signal.SIGKILL)
        page.wait_for_selector("#job >> text=/server does not answer/")
    with running("--port", address.rpartition(":")[2], environment=environment):
        page.wait_for_selector("#job >> text=/the server was stopped before this was finished/")
        page.get_by_role("button", name="Find the best plan").click()
        page.wait_for_selector(RUNS)
        page.get_by_role("button", name="Stop").click()
    page.context.close()
