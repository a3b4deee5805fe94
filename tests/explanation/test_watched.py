"""A watched job explained: its measured step and waits, its parts, and limits scaled from its prediction."""

import pytest

import sightline as sl
from sightline.runs import open_store

EXAMPLE = "examples/llama-2-7b-zero2-8xa800.yaml"


@pytest.fixture
def watched(tmp_path):
    """Stores a watch of steps of 20 s, of which 5 s wait for input; returns its store and id."""

    def written(scenario):
        store = open_store(str(tmp_path))
        writer = store.begin("job", scenario=scenario, suite="watch")
        result = {
            "source": "measured",
            "fits": True,
            "step_time_s": 20.0,
            "interval": {"step_time_s": [19.0, 21.0]},
            "measurement": {
                "implementation": "watched job",
                "steps": 40,
                "spread_s": {"p10": 19.5, "p90": 20.5},
                "input_wait_s": 5.0,
                "parts": {"forward": 4.0, "backward": 9.0},
            },
            "warnings": ["From step 30 on steps are slower: 20 s, not 15 s."],
        }
        run = writer.finish(status="ok", reason="", result=result, scenario=scenario, name="job", environment={})
        return str(tmp_path), run.id

    return written


@pytest.mark.slow
def test_a_watch_with_its_scenario_is_explained_by_the_scaled_prediction(watched):
    from sightline.loading import to_mapping

    store, run = watched(to_mapping(sl.load(EXAMPLE)))
    found = sl.explain(run, store=store)
    by_limit = {one.limit: one.time_s for one in found.limits}
    predicted = {one.limit: one.share for one in sl.explain(EXAMPLE).limits}
    assert by_limit["input"] == found.input_wait_s == 5.0
    assert by_limit["network"] == pytest.approx(15.0 * predicted["network"])
    assert found.unmatched_s == 0
    assert sum(by_limit.values()) == pytest.approx(20.0)
    assert sum(found.phases.values()) == pytest.approx(20.0)
    assert any("predicted from the scenario" in one for one in found.sentences)


def test_a_watch_without_a_scenario_tells_what_it_measured(watched):
    store, run = watched({})
    found = sl.explain(run, store=store)
    said = " ".join(found.sentences)
    assert "takes 20 s over 40 steps" in said
    assert "waits 5 s (25 %) for its input" in said
    assert "backward 9 s (45 %), forward 4 s" in said
    assert "From step 30 on" in said
    assert found.unmatched_s == 15.0
