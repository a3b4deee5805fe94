"""The report of every kind of answer: what it says, and how it stands in a real browser without a network."""

import json
import shutil
from html.parser import HTMLParser

import pytest

from sightline.cli.main import run
from sightline.render import document as documents
from sightline.render import html
from sightline.render.document import document

EXAMPLE = "examples/llama-2-7b-zero2-8xa800.yaml"
GENERATION = "examples/llama-2-70b-generate-4xh100.yaml"
KINDS = {
    "predict": ["predict", EXAMPLE],
    "sweep": ["predict", EXAMPLE, "--sweep", "plan.micro_batch=1,2"],
    "generation": ["predict", GENERATION],
    "operators": ["predict", "examples/operators.yaml"],
    "simulate": ["simulate", "examples/serving/llama-3.1-8b-h100.yaml", "--no-intervals"],
    "plan": ["plan", EXAMPLE, "--set", "plan.tensor_parallel=1", "--set", "plan.pipeline_parallel=1", "--top", "3"],
    "compare": ["compare", EXAMPLE, "examples/llama-2-7b-measured-8xa800.yaml"],
    "explore": ["explore", "dram", "--quick"],
    "validate": ["validate", "korthikanti-2022-table5", "--cases"],
    "sensitivity": ["sensitivity", EXAMPLE],
    "roofline": ["roofline", "examples/llama-2-7b-generate-a100.yaml"],
    "explain": ["explain", EXAMPLE],
}
SAID = {
    "predict": ('data-card="fits"', "Time by module and phase", "zero_stage: 2"),
    "operators": ("bound by", "Figures"),
    "compare": ("B / A", "Key figures", "The scenario of B"),
    "validate": ("mean error", "Cases", "inside"),
    "sensitivity": ("Effect of raising an input", "Plans with a single change"),
    "roofline": ("FLOP/byte", "ridge"),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write the page of a kind, once: its path."""
    folder, found = tmp_path_factory.mktemp("pages"), {}

    def write(kind):
        if kind not in found:
            found[kind] = folder / f"{kind}.html"
            assert run([*KINDS[kind], "--html", str(found[kind])]) == 0
        return found[kind]

    return write


class Outline(HTMLParser):
    """The levels of headings, the ids and the addresses of a page."""

    def __init__(self, text):
        super().__init__()
        self.levels, self.ids, self.addresses, self.unlabelled = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        said = dict(attrs)
        if tag in ("h1", "h2", "h3", "h4"):
            self.levels.append(int(tag[1]))
        self.ids += [said["id"]] if "id" in said else []
        self.addresses += [said[key] for key in ("src", "href") if key in said]
        if "tabindex" in said and not said.get("aria-label"):
            self.unlabelled.append(tag)


@pytest.mark.parametrize(
    "kind", [kind if kind == "predict" else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
def test_a_page_is_whole_small_and_in_order(written, kind):
    text = written(kind).read_text(encoding="utf-8")
    found = Outline(text.partition("<body>")[2])
    assert len(text.encode()) <= documents.MOST_BYTES
    assert '<html lang="en">' in text
    assert found.levels[0] == 1
    assert found.levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(found.levels, found.levels[1:], strict=False))
    assert len(found.ids) == len(set(found.ids))
    assert found.addresses == []
    assert found.unlabelled == []
    assert all(said in text for said in SAID.get(kind, ()))


def bar(values):
    return {"data": {"values": values}, "mark": "bar", "encoding": {"x": {"field": "a"}, "y": {"field": "b"}}}


def test_a_page_leaves_out_the_charts_that_it_has_no_room_for():
    many = [{"a": i, "b": i} for i in range(20_000)]
    charts = [html.chart(f"chart{i}", bar(many), label=f"number {i}") for i in range(5)]
    text = document("Many", html.joined(*charts))
    assert len(text.encode()) <= documents.MOST_BYTES
    assert "a chart of number 4" in text
    assert 'id="chart0"' in text
    assert 'id="chart4"' not in text


def test_a_page_without_charts_carries_no_drawing_library():
    text = document("Short", html.joined(html.headline("Short")), command="sightline predict <x>")
    assert len(text) < 10_000
    assert "<script" not in text
    assert "<code>sightline predict &lt;x&gt;</code>" in text


def test_texts_of_a_scenario_stay_texts():
    hostile = '</script><img src=x onerror="alert(1)">'
    text = document(hostile, html.chart("chart", bar([{"a": hostile, "b": 1}]), label=hostile))
    assert "<img" not in text.partition("<body>")[2].replace(hostile, "") or "<img src" not in text
    embedded = text.partition('id="sightline-charts">')[2].partition("</script>")[0]
    assert json.loads(embedded)["chart"][0]["data"]["values"][0]["a"] == hostile


@pytest.fixture(scope="module")
def browser():
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as session:
        yield session.chromium.launch(executable_path=chromium, args=["--no-sandbox"])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_page_stands_in_a_browser(browser, written, kind):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for width, scheme in ((1200, "light"), (400, "dark")):
        context = browser.new_context(
            offline=True, color_scheme=scheme, viewport={"width": width, "height": 900}, accept_downloads=True
        )
        tab, complaints = context.new_page(), []
        tab.on("console", lambda message, to=complaints: to.append(message.text) if message.type == "error" else None)
        tab.on("pageerror", lambda error, to=complaints: to.append(str(error)))
        tab.goto(written(kind).as_uri())
        if tab.locator(".drawn").count():
            tab.wait_for_selector(".drawn svg")
        assert complaints == []
        assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        found = axe.run(tab).response["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
        context.close()


@pytest.mark.slow
def test_a_chart_is_saved_from_the_page_as_picture_and_numbers(browser, written):
    tab = browser.new_context(offline=True, accept_downloads=True).new_page()
    tab.goto(written("predict").as_uri())
    tab.wait_for_selector(".files button")
    starts = {"SVG": b"<svg", "PNG": b"\x89PNG", "CSV": b""}
    for kind, start in starts.items():
        with tab.expect_download() as waiting:
            tab.locator(".files button", has_text=kind).first.click()
        content = waiting.value.path().read_bytes()
        assert waiting.value.suggested_filename == f"chart-time.{kind.lower()}"
        assert content.startswith(start)
        assert len(content) > 200
