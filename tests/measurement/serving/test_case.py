"""Cases of measured loads: what is refused before anything runs, and the result of a server that runs."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from measurement.running import TINY
from serving_scenarios import serving

pytest.importorskip("aiohttp")

from sightline.errors import InputError, WorkError
from sightline.measurement.processes.cases import Serving, Settings
from sightline.measurement.serving.case import cases_of, measure_serving

RUNNING = Settings(serving=Serving(url="http://127.0.0.1:9"))


@pytest.fixture
def scenario():
    """Thirty short requests."""
    arrival = {"process": "poisson", "rate": 200}
    return serving(model=TINY, count=30, prompt_tokens=24, output_tokens=8, arrival=arrival)


@pytest.fixture(scope="module")
def url():
    """Of a small real server."""
    script = Path(__file__).with_name("misbehaving.py")
    server = subprocess.Popen([sys.executable, script, "0"], stdout=subprocess.PIPE, text=True)
    yield f"http://127.0.0.1:{server.stdout.readline().split()[1]}"
    server.kill()
    server.communicate()


def test_a_key_that_is_not_set_is_refused(scenario, monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    asked = replace(RUNNING, serving=replace(RUNNING.serving, key_variable="NO_SUCH_KEY"))
    with pytest.raises(InputError, match="NO_SUCH_KEY, which is not set"):
        cases_of([scenario], asked)


def test_all_engines_that_are_missing_are_named_at_once():
    asked = [serving(plan={"framework": engine}) for engine in ("tgi", "llama.cpp")]
    with pytest.raises(InputError) as found:
        cases_of(asked, Settings())
    assert "text-generation-launcher is not installed" in str(found.value)
    assert "llama-server is not installed" in str(found.value)


def test_a_server_that_runs_needs_no_engine_here():
    (case,) = cases_of([serving(plan={"framework": "tgi"})], RUNNING)
    assert case.arguments["url"] == RUNNING.serving.url
    assert case.scenario["plan"]["framework"] == "tgi"


def test_a_measured_load_has_the_keys_of_a_simulated_one(scenario, url):
    profile = measure_serving(scenario, Settings(serving=Serving(url=url, warm_up=1)))
    assert (profile.source, profile.completed, profile.failed) == ("measured", 30, 0)
    assert profile.ttft_s["mean"] <= profile.latency_s["mean"]
    assert (profile.queue_s, profile.prefix_hit_rate) == (None, None)
    assert len(profile.outcome.requests) == 30
    assert profile.measurement["prompts"] == "TokenIds"


def test_an_address_where_nobody_listens_is_named(scenario):
    with pytest.raises(WorkError, match=r"no server answers at http://127\.0\.0\.1:9"):
        measure_serving(scenario, RUNNING)
