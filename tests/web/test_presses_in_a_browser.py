"""Presses of a button while answers of earlier questions arrive, in real Chromium."""

import re

import pytest
from page_checks import drawn_again, ready

pytestmark = pytest.mark.slow
ASKED = (
    "/serve?model=qwen2.5-0.5b&cluster=1x+h100-sxm-80gb&workload.task=serve&workload.requests.count=100"
    "&workload.requests.prompt_tokens=256&workload.requests.output_tokens=16&workload.arrival.process=poisson"
    "&workload.arrival.rate=50&workload.slo.ttft=1+s&workload.seed=1&intervals=no"
)


class Gate:
    """Holds back requests to addresses like a pattern until it is opened."""

    def __init__(self, page, pattern):
        self.held, self.is_open = [], False
        page.route(re.compile(pattern), self._take)

    def _take(self, route):
        if self.is_open:
            route.continue_()
        else:
            self.held.append(route)

    def open(self):
        self.is_open = True
        for route in self.held:
            route.continue_()


@pytest.fixture
def button(page):
    """The button that begins work."""
    return page.get_by_role("button", name="Simulate")


def test_a_press_is_not_lost_when_the_form_moves_below_it(page, button):
    page.set_viewport_size({"width": 1280, "height": 1400})
    page.goto(f"{ASKED}#ask")
    ready(page)
    page.get_by_label("arrivals").select_option("closed")
    page.wait_for_selector(".field-problem:not(:empty)")
    question = "concurrency=8.*fragment=1"
    answers = Gate(page, question)
    page.get_by_label("clients").fill("8")
    box = button.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 2)
    with page.expect_request(re.compile(question)):
        page.mouse.down()
    # The answer takes the sentence above the button away, so that it moves up.
    with page.expect_response(re.compile(question)) as answer:
        answers.open()
    answer.value.finished()
    drawn_again(page)
    page.mouse.up()
    page.wait_for_selector("#answer >> text=/8 clients/")


def test_a_press_is_not_forgotten_when_earlier_work_ends(page, button):
    looks = Gate(page, r"/jobs\?id=")
    with page.expect_request(re.compile(r"/jobs\?id=")):
        page.goto(ASKED.replace("seed=1", "seed=2").replace("count=100", "count=1500"))
    ready(page)
    question = "rate=60.*fragment=1"
    answers = Gate(page, question)
    page.get_by_label("requests per second").fill("60")
    with page.expect_request(re.compile(question)):
        button.click()
    # The earlier work is done while the answer to the new question is on its way.
    with page.expect_request(re.compile("fragment=1")):
        looks.open()
    answers.open()
    page.wait_for_selector("#answer >> text=/poisson at 60/")


def test_work_is_followed_that_the_fields_left_and_came_back_to(page, button):
    begun = Gate(page, "/start")
    page.goto(f"{ASKED}#ask")
    ready(page)
    rate = page.get_by_label("requests per second")
    rate.fill("70")
    with page.expect_request(re.compile("/start")):
        button.click()
    for other in ("0", "70"):
        with page.expect_response(re.compile(f"rate={other}&.*fragment=1")):
            rate.fill(other)
    page.wait_for_selector("#job >> text=/Starting/")
    begun.open()
    page.wait_for_selector("#answer >> text=/poisson at 70/")
