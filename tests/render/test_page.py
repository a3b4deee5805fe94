"""The report page, read as text and opened in a real browser that has no network."""

import re
import shutil

import pytest
from chart_answers import ANSWERS
from rendered import profiles_page as page
from waiting import until

from sightline.answers.profile import profile_outline
from sightline.charts.profile_charts import profile_chart
from sightline.render import html
from sightline.render.document import chart_page, document


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as session:
        yield session.chromium.launch(executable_path=chromium, args=["--no-sandbox"])


def opened(browser, tmp_path, content):
    """Open a page offline; return it with everything it complained about or asked the network for."""
    file = tmp_path / "page.html"
    file.write_text(content, encoding="utf-8")
    tab = browser.new_context(offline=True).new_page()
    complaints = []
    tab.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda request: complaints.append(request.url) if request.url.startswith("http") else None)
    tab.goto(file.as_uri())
    tab.wait_for_selector("svg")
    return tab, complaints


def test_the_page_draws_itself_without_a_network(browser, tmp_path, profile):
    tab, complaints = opened(browser, tmp_path, page([profile]))
    assert complaints == []
    assert tab.title() == "Llama-2-7B, ZeRO-2, 8 x A800"
    assert "270 ms · 21.6 %" in tab.inner_text("#chart-time")
    assert tab.locator("table").count() >= 2


def test_the_page_does_not_scroll_sideways(browser, tmp_path, profile):
    tab, _ = opened(browser, tmp_path, page([profile]))
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_several_scenarios_are_compared_first_and_open_on_demand(browser, tmp_path, build, make_scenario):
    profiles = [build(scenario=make_scenario(micro_batch=m)) for m in (1, 2)]
    tab, complaints = opened(browser, tmp_path, page(profiles))
    assert complaints == []
    assert "by micro_batch" in tab.inner_text("h1")
    tab.locator("main > details > summary").nth(1).click()
    assert tab.locator("#chart1-time svg").is_visible()


def test_a_chart_alone_is_a_page_too(browser, tmp_path, profile):
    tab, complaints = opened(browser, tmp_path, chart_page(profile_chart([profile])))
    assert complaints == []
    assert "80.0 GiB" in tab.inner_text("#chart")


def test_names_cannot_break_out_of_the_page(browser, tmp_path, build, make_scenario):
    from dataclasses import replace

    hostile = "</script><script>document.title='broken'</script><b>"
    tab, complaints = opened(browser, tmp_path, page([build(scenario=replace(make_scenario(), name=hostile))]))
    assert complaints == []
    assert tab.title() == hostile


def test_what_would_fit_and_the_scenario_stand_on_the_page(too_large):
    text = page([too_large])
    assert "recompute full would fit" in text
    assert "zero_stage: 2" in text


def test_the_table_of_modules_sums_to_the_phases(profile):
    total = page([profile]).partition("Time by module and phase")[2].partition("</table>")[0].rpartition("<tr>")[2]
    assert re.sub("<[^>]*>", " ", total).split() == ["total", "270", "ms", "550", "ms", "50.0", "ms", "870", "ms"]


def test_the_page_says_what_an_anchor_taught(profile):
    taught = [{"from": "our-cluster", "learned": [], "unused": [], "sentence": "pace <1.1 x>"}]
    assert "<p>anchored to our-cluster: pace &lt;1.1 x&gt;</p>" in page([profile.replace(anchor=taught)])


def test_memory_that_is_tight_is_amber(build):
    near = build(interval={"memory_bytes.total": (50.0 * 2**30, 80.5 * 2**30)})
    assert '<dd class="value perhaps">tight</dd>' in page([near])


def test_a_sweep_has_a_column_for_each_key_as_it_was_typed(build, make_scenario):
    profiles = [build(scenario=make_scenario(micro_batch=size)) for size in (1, 2)]
    cells = [{"cluster.network.bandwidth_per_node": rate, "plan.micro_batch": 1} for rate in ("400 Gbit/s", "50 GB/s")]
    figures = page(profiles, cells).partition("<h2>Figures</h2>")[2].partition("</table>")[0]
    for said in ("bandwidth per node", "400 Gbit/s", "50 GB/s", "micro batch", "bound by"):
        assert said in figures
    assert "scenario" in page(profiles).partition("<h2>Figures</h2>")[2].partition("</table>")[0]


def test_a_wide_table_scrolls_on_a_phone_and_keeps_its_sentences_readable(browser, tmp_path):
    sentence = "scaling efficiency from 1 to 8 GPUs, batch 2, 4-bit weights"
    rows = [("A1", sentence, "almost linear", "0.967", "at least 0.950", sentence)]
    table = html.table(("", *"abcde"), rows, numbers=(False, False, False, True, True, False))
    file = tmp_path / "page.html"
    file.write_text(document("Wide", html.joined(table)), encoding="utf-8")
    tab = browser.new_context(offline=True, viewport={"width": 400, "height": 800}).new_page()
    tab.goto(file.as_uri())
    region = tab.locator(".scroll")
    assert region.evaluate("one => one.scrollWidth > one.clientWidth")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert region.locator("tbody td").nth(1).evaluate("one => one.clientWidth") > 150


@pytest.fixture(scope="module")
def pipelined():
    return document("Step", html.outline_piece(profile_outline(ANSWERS["step"]())))


@pytest.mark.parametrize("width", [1100, 700, 400])
def test_charts_are_as_wide_as_their_place_and_follow_it(browser, tmp_path, pipelined, width):
    tab, complaints = opened(browser, tmp_path, pipelined)
    tab.set_viewport_size({"width": width, "height": 800})
    ends = "[...document.querySelectorAll('.drawn')].map((one) => [one.clientWidth, one.firstElementChild.clientWidth])"
    until(lambda: all(abs(place - chart) <= 12 for place, chart in tab.evaluate(ends)))
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert complaints == []


def test_rows_and_marks_of_one_key_point_at_each_other(browser, tmp_path, pipelined):
    tab, _ = opened(browser, tmp_path, pipelined)
    row = tab.locator("tr[data-key=mlp]").first
    row.focus()
    assert tab.locator("tr.picked").count() >= 1
    marks = "[...document.querySelectorAll('.drawn path.passed')].map((one) => one.__data__.datum.key)"
    assert tab.evaluate(marks)
    assert "mlp" not in tab.evaluate(marks)
    tab.locator("#chart-roofline path.passed").first.hover(force=True)
    assert tab.locator("tr.picked").first.get_attribute("data-key") != "mlp"


def test_the_time_of_a_pipeline_is_zoomed_within_its_ends(browser, tmp_path, pipelined):
    tab, complaints = opened(browser, tmp_path, pipelined)
    figure = tab.locator("figure:has(#chart-pipeline)")

    def ticks():
        return sorted(map(float, figure.locator("svg .role-axis-label").first.locator("text").all_text_contents()))

    whole = ticks()
    figure.get_by_label("zoom in").click()
    assert ticks() != whole
    box = figure.locator("svg .background").nth(1).bounding_box()
    across, down = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(across, down)
    tab.mouse.down()
    tab.mouse.move(across + 5000, down, steps=3)
    tab.mouse.up()
    # Nothing is before the start.
    assert ticks()[0] == whole[0]
    assert ticks()[-1] < whole[-1]
    figure.get_by_label("show the whole time").click()
    assert ticks() == whole
    assert complaints == []
