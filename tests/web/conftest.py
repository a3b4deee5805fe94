"""What tests of the page share: the application in this process, a server of its own, and real Chromium."""

import shutil

import pytest
from page_checks import opened, running


@pytest.fixture(scope="session")
def client(tmp_path_factory):
    """The application without a server: ``client.get("/predict?model=...")``."""
    from starlette.testclient import TestClient

    from sightline.web.jobs import Jobs
    from sightline.web.server import create_app

    jobs = Jobs(tmp_path_factory.mktemp("jobs"))
    with TestClient(create_app(jobs), base_url="http://127.0.0.1:8750", follow_redirects=False) as found:
        yield found
    jobs.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The address of a server with stores of its own."""
    place = tmp_path_factory.mktemp("page")
    environment = {"SIGHTLINE_RUNS": str(place / "runs"), "SIGHTLINE_JOBS": str(place / "jobs")}
    with running(environment=environment) as (address, _):
        yield address


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium."""
    where = shutil.which("chromium") or shutil.which("google-chrome")
    if where is None:
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=where, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser, server):
    """A page of 1280 pixels: ``page.goto("/predict")``."""
    with opened(browser, server) as found:
        yield found


@pytest.fixture
def phone(browser, server):
    """A page of 400 pixels in the dark."""
    with opened(browser, server, viewport={"width": 400, "height": 850}, color_scheme="dark") as found:
        yield found
