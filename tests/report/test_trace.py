"""The Chrome trace of a step, as a viewer reads it."""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sightline.loading import load
from sightline.prediction import predict
from sightline.prediction.schedules import timeline
from sightline.prediction.schedules.simulation import Span
from sightline.profile import Profile
from sightline.report.charts.trace import COLORS, chrome_trace, trace_text

ALL = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
STEPLESS = ("task: generate", "task: operator", "task: serve")
EXAMPLES = [path for path in ALL if not any(task in path.read_text() for task in STEPLESS)]
"""Those with a training step, so with a timeline."""
GPT_3 = next(path for path in EXAMPLES if path.stem.startswith("gpt-3"))


def profiles(path: Path) -> list[Profile]:
    loaded = load(str(path))
    return [predict(one) for one in (loaded if isinstance(loaded, list) else [loaded])]


def spans_of(document: dict) -> list[dict]:
    return [event for event in document["traceEvents"] if event["ph"] == "X"]


@pytest.fixture(scope="module")
def gpt_3() -> Profile:
    return profiles(GPT_3)[0]


@pytest.fixture(scope="module")
def document(gpt_3) -> dict:
    return json.loads(chrome_trace(gpt_3))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_has_a_trace_as_long_as_its_step(path):
    for profile in profiles(path):
        spans = spans_of(json.loads(chrome_trace(profile)))
        end = max(span["ts"] + span["dur"] for span in spans)
        # Behind a single heavier stage 1F1B ends earlier than its closed form.
        uneven = profile.scenario.plan.prediction_layers or profile.scenario.cluster.groups
        tolerance = 0.025 if uneven else 2e-3
        assert end / 1e6 == pytest.approx(profile.step_time_s, rel=tolerance)
        assert min(span["ts"] for span in spans) == 0


def test_events_are_complete_and_sorted(document):
    spans = spans_of(document)
    fields = {"name", "cat", "ph", "pid", "tid", "ts", "dur", "cname", "args"}
    assert all(set(span) == fields for span in spans)
    assert all(span["dur"] >= 0 for span in spans)
    starts = [span["ts"] for span in spans]
    assert starts == sorted(starts)


def test_a_row_never_overlaps_itself(document):
    rows = defaultdict(list)
    for span in spans_of(document):
        rows[span["pid"], span["tid"]].append((span["ts"], span["ts"] + span["dur"]))
    assert len(rows) == 8
    for row in rows.values():
        # A viewer works with whole nanoseconds.
        assert all(a[1] <= b[0] + 1e-4 for a, b in pairwise(row))


def test_stages_are_processes_in_order(document):
    names = [event for event in document["traceEvents"] if event["ph"] == "M"]
    by_kind = defaultdict(dict)
    for event in names:
        by_kind[event["name"]][event["pid"]] = event["args"]
    assert by_kind["process_name"] == {stage: {"name": f"stage {stage}"} for stage in range(8)}
    assert by_kind["process_sort_index"] == {stage: {"sort_index": stage} for stage in range(8)}
    assert set(by_kind["thread_name"]) == set(range(8))


def test_a_span_says_what_it_is(document):
    spans = spans_of(document)
    kinds = {span["cat"] for span in spans}
    assert kinds == {
        "forward", "backward", "transfer", "gradient reduction", "tied embedding", "waiting for the slowest device",
        "optimizer", "host",
    }  # fmt: skip
    assert all(span["cname"] == COLORS[span["cat"]] for span in spans)
    first = spans[0]
    assert (first["name"], first["cat"]) == ("forward 0", "forward")
    assert first["args"] == {"stage": 0, "micro_batch": 0, "chunk": 0}
    chunks = {(span["args"]["micro_batch"], span["args"]["chunk"]) for span in spans if span["cat"] == "backward"}
    assert chunks == {(m, c) for m in range(96) for c in range(2)}


def test_the_file_says_what_it_draws(document, gpt_3):
    assert document["otherData"] == {
        "scenario": "GPT-3 175B, Megatron, 1024 x A100",
        "source": "sightline, predicted",
        "step_time_s": gpt_3.step_time_s,
        "micro_batches": 96,
        "micro_batches_drawn": 96,
    }


def test_a_huge_schedule_says_what_is_not_drawn(gpt_3, monkeypatch):
    monkeypatch.setattr(timeline, "MOST_SPANS", 1_000)
    document = json.loads(chrome_trace(gpt_3))
    assert document["otherData"]["micro_batches_drawn"] == 8
    omitted = [span for span in spans_of(document) if span["cat"] == "omitted"]
    assert {span["name"] for span in omitted} == {"88 more micro-batches, not drawn one by one"}
    assert [span["pid"] for span in omitted] == list(range(8))


def test_one_stage_is_the_device_and_numpy_s_numbers_are_plain():
    spans = [
        Span(stage=0, kind="forward", start_s=np.float64(0.0), end_s=np.float64(1.0000004e-3), micro_batch=0),
        Span(stage=0, kind="optimizer", start_s=np.float64(1.0000004e-3), end_s=np.float64(2e-3)),
    ]
    document = json.loads(trace_text(spans, {}))
    assert document["traceEvents"][0]["args"] == {"name": "device"}
    forward, optimizer = spans_of(document)
    assert (forward["ts"], forward["dur"]) == (0, 1000.0)
    assert (optimizer["ts"], optimizer["dur"]) == (1000.0, 1000.0)
    assert optimizer["args"] == {"stage": 0}


def test_no_spans_are_an_empty_trace():
    assert spans_of(json.loads(trace_text([], {}))) == []
