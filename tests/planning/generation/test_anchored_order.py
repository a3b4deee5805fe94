"""Plans of generation with an anchor are ranked by the figures that it leaves them."""

from dataclasses import replace

import pytest

from sightline.anchors.corrected import anchored
from sightline.planning.search import plan

ASKED = {
    "model": "llama-3.1-8b",
    "cluster": "2x h100-sxm-80gb",
    "workload": {"task": "generate", "batch": 32, "prompt_tokens": 1024, "output_tokens": 256},
}


@pytest.mark.parametrize("request_of", [{"objective": "latency"}, {"pareto": ("latency", "throughput")}])
def test_the_order_is_that_of_the_figures_that_are_shown(request_of):
    best = plan(ASKED, top=1, **request_of).plans[0].profile
    slow = {key: 1.5 * float(getattr(best, key)) for key in ("ttft_s", "tpot_s")}
    anchor = anchored([replace(best.scenario, measured=slow, name="own")])
    plans = plan(ASKED, top=8, anchor=anchor, **request_of).plans
    times = [float(one.profile.tpot_s) for one in plans]
    assert times == sorted(times)
    assert [one.value for one in plans] == pytest.approx(times)
