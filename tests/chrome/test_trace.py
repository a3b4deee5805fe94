"""The Chrome trace of a step and of a generation, as a viewer reads it."""

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sightline.chrome import step_trace
from sightline.chrome.step_trace import chrome_trace
from sightline.chrome.trace_events import (
    COMPUTE,
    HOST,
    LAYERS_SEND,
    STAGES_SEND,
    STEP_SENDS,
    Block,
    Operator,
    drawn,
    trace_text,
)
from sightline.loading import load
from sightline.prediction import predict
from sightline.prediction.schedules import timeline
from sightline.profile import Profile, overlapped_s

ALL = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
STEPLESS = ("task: generate", "task: operator", "task: serve")
EXAMPLES = [path for path in ALL if not any(task in path.read_text() for task in STEPLESS)]
"""Those with a training step, so with a timeline."""
GPT_3 = next(path for path in EXAMPLES if path.stem.startswith("gpt-3"))
LLAMA = next(path for path in EXAMPLES if path.stem == "llama-2-7b-zero2-8xa800")
GENERATION = next(path for path in ALL if path.stem == "llama-2-70b-generate-4xh100")


def profiles(path: Path) -> list[Profile]:
    loaded = load(str(path))
    return [predict(one) for one in (loaded if isinstance(loaded, list) else [loaded])]


def spans_of(document: dict) -> list[dict]:
    return [event for event in document["traceEvents"] if event["ph"] == "X"]


def seconds(document: dict, row: int, pid: int = 0) -> float:
    """Seconds of kernels on a row."""
    own = [s for s in spans_of(document) if s["cat"] == "kernel" and (s["pid"], s["tid"]) == (pid, row)]
    return sum(span["dur"] for span in own) / 1e6


def crossing(document: dict) -> list[dict]:
    """Slices that begin in another one of their row and end after it: a viewer cannot nest them."""
    found, open_ends = [], defaultdict(list)
    for span in spans_of(document):
        ends = open_ends[span["pid"], span["tid"]]
        # A viewer works with whole nanoseconds.
        while ends and ends[-1] <= span["ts"] + 1e-4:
            ends.pop()
        end = span["ts"] + span["dur"]
        if ends and end > ends[-1] + 1e-3:
            found.append(span)
        ends.append(end)
    return found


@pytest.fixture(scope="module")
def gpt_3() -> Profile:
    return profiles(GPT_3)[0]


@pytest.fixture(scope="module")
def document(gpt_3) -> dict:
    """The trace with the modules of few micro-batches, so that it is small."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_trace, "MOST_EVENTS", 16_000)
        return json.loads(chrome_trace(gpt_3))


@pytest.fixture(scope="module")
def llama() -> Profile:
    return profiles(LLAMA)[0]


@pytest.fixture(scope="module")
def generated() -> Profile:
    return profiles(GENERATION)[0]


_QUICK = ("llama-2-7b-zero2-8xa800", "llama-2-7b-packed-8xh100")
_MARKED = [path if path.stem in _QUICK else pytest.param(path, marks=pytest.mark.slow) for path in EXAMPLES]


@pytest.mark.parametrize("path", _MARKED, ids=lambda path: path.stem)
def test_every_example_has_a_trace_as_long_as_its_step(path):
    profile = profiles(path)[0]
    found = json.loads(chrome_trace(profile))
    spans = spans_of(found)
    end = max(span["ts"] + span["dur"] for span in spans)
    assert end / 1e6 == pytest.approx(profile.step_time_s, abs=1e-9)
    assert min(span["ts"] for span in spans) == 0
    assert len(found["traceEvents"]) < 200_000
    assert not crossing(found)


def test_events_are_complete_and_sorted(document):
    spans = spans_of(document)
    assert all({"name", "cat", "ph", "pid", "tid", "ts", "dur", "args"} == set(span) for span in spans)
    assert all(span["dur"] >= 0 for span in spans)
    starts = [span["ts"] for span in spans]
    assert starts == sorted(starts)


def test_stages_are_processes_with_named_rows(document):
    by_kind = defaultdict(dict)
    for event in document["traceEvents"]:
        if event["ph"] == "M":
            by_kind[event["name"]][event["pid"], event["tid"]] = event["args"]
    assert by_kind["process_name"] == {(stage, 0): {"name": f"stage {stage}"} for stage in range(8)}
    rows = {place[1]: said["name"] for place, said in by_kind["thread_name"].items() if place[0] == 0}
    assert rows == {
        COMPUTE: "compute",
        LAYERS_SEND: "communication of layers",
        STEP_SENDS: "communication of the step",
        STAGES_SEND: "communication between stages",
        HOST: "host",
    }


def test_operators_of_one_device_sum_to_the_phases(llama):
    found, phases = json.loads(chrome_trace(llama)), llama.phases
    compute = phases["forward"] + phases["backward"] + phases["optimizer"]
    assert seconds(found, COMPUTE) == pytest.approx(compute, rel=1e-4)
    sent = sum(seconds(found, row) for row in (LAYERS_SEND, STEP_SENDS))
    assert sent == pytest.approx(phases["communication_exposed"] + overlapped_s(llama.rows), rel=1e-4)
    host = sum(span["dur"] for span in spans_of(found) if span["cat"] == "cpu_op") / 1e6
    assert host == pytest.approx(phases["host"], rel=1e-4)


def test_modules_nest_in_layers_and_layers_in_passes(llama):
    spans = [span for span in spans_of(json.loads(chrome_trace(llama))) if span["tid"] == COMPUTE]
    forward = next(span for span in spans if span["name"] == "forward 0")
    inside = [s for s in spans if s["ts"] >= forward["ts"] and s["ts"] + s["dur"] <= forward["ts"] + forward["dur"]]
    names = Counter(span["name"] for span in inside)
    assert names["layer 0"] == names["layer 31"] == 1
    assert names["mlp"] == names["attention core"] == 32
    assert names["embedding"] == 1
    assert "layer 32" not in names
    backward = [s["name"] for s in spans if s["ts"] > forward["ts"] + forward["dur"] and s["name"].startswith("layer")]
    assert backward[0] == "layer 31"


def test_layers_are_numbered_over_the_stages(document):
    names = {(s["pid"], s["name"]) for s in spans_of(document) if s["name"].startswith("layer ")}
    assert {pid for pid, name in names if name == "layer 0"} == {0}
    assert {pid for pid, name in names if name == "layer 95"} == {7}
    assert {name for _, name in names} == {f"layer {number}" for number in range(96)}


def test_a_pass_says_what_it_is(document):
    passes = [span for span in spans_of(document) if "micro_batch" in span["args"] and span["tid"] == COMPUTE]
    assert {(span["args"]["micro_batch"], span["args"]["chunk"]) for span in passes} == {
        (m, c) for m in range(96) for c in range(2)
    }
    assert {span["name"].partition(" ")[0] for span in passes} == {"forward", "backward"}


def test_waiting_for_other_stages_is_a_bubble(document):
    idle = [span for span in spans_of(document) if span["cat"] == "idle"]
    assert {span["name"] for span in idle} == {"bubble"}
    assert 7 in {span["pid"] for span in idle}


def test_memory_rises_to_the_ledger_s_total_and_ends_without_activations(document, gpt_3):
    counters = [e["args"] for e in document["traceEvents"] if e["ph"] == "C" and e["pid"] == 0]
    first = gpt_3.stages[0]
    assert max(sum(one.values()) for one in counters) == pytest.approx(float(first.total))
    assert counters[0]["activations"] == counters[-1]["activations"] == 0.0


def test_arrows_lead_from_a_stage_to_the_next(document):
    flows = defaultdict(dict)
    for event in document["traceEvents"]:
        if event["ph"] in "sf":
            flows[event["id"]][event["ph"]] = event
    assert flows
    assert all(set(pair) == {"s", "f"} for pair in flows.values())
    assert all(pair["s"]["pid"] != pair["f"]["pid"] for pair in flows.values())
    assert all(pair["s"]["ts"] <= pair["f"]["ts"] for pair in flows.values())


def test_the_file_says_what_it_draws(document, gpt_3):
    told = document["otherData"]
    assert told["step_time_s"] == gpt_3.step_time_s
    assert told["micro_batches"] == told["micro_batches_drawn"] == 96
    assert 0 < told["micro_batches_with_modules"] < 96


def test_a_huge_schedule_says_what_is_not_drawn(gpt_3, monkeypatch):
    monkeypatch.setattr(timeline, "MOST_SPANS", 1_000)
    monkeypatch.setattr(step_trace, "MOST_EVENTS", 1_000)
    found = json.loads(chrome_trace(gpt_3))
    assert found["otherData"]["micro_batches_drawn"] == 8
    assert found["otherData"]["micro_batches_with_modules"] == 1
    omitted = [span for span in spans_of(found) if "more micro-batches" in span["name"]]
    (name,) = {span["name"] for span in omitted}
    assert name.startswith("88 more micro-batches")
    assert [span["pid"] for span in omitted] == list(range(8))


def test_a_generation_has_prefill_and_steps_of_decoding(generated):
    found = json.loads(chrome_trace(generated))
    names = [span["name"] for span in spans_of(found)]
    assert {"prefill 0", "prefill 1", "decode 1", "decode 3", "decode 127"} <= set(names)
    assert "decode 4" not in names
    assert any(name.startswith("123 more decode steps") for name in names)
    assert not crossing(found)
    end = max(span["ts"] + span["dur"] for span in spans_of(found)) / 1e6
    assert end == pytest.approx(generated.latency_s, rel=1e-6)
    first = next(span for span in spans_of(found) if span["name"] == "decode 1")
    assert first["ts"] / 1e6 == pytest.approx(generated.ttft_s, rel=1e-6)


def test_the_operators_of_a_prefill_sum_to_its_phases(generated):
    found = json.loads(chrome_trace(generated))
    until = float(generated.ttft_s) * 1e6
    own = [s for s in spans_of(found) if s["cat"] == "kernel" and s["ts"] < until - 1e-3]
    compute = sum(s["dur"] for s in own if s["tid"] == COMPUTE) / 1e6
    assert compute == pytest.approx(generated.phases["prefill"], rel=1e-4)


def test_explain_reads_the_trace(llama, tmp_path):
    from sightline import explain

    file = tmp_path / "trace.json"
    file.write_text(chrome_trace(llama))
    found = explain(str(file))
    assert found.whole_s == pytest.approx(llama.step_time_s, rel=0.01)
    assert found.exposed_communication_s == pytest.approx(llama.phases["communication_exposed"], rel=0.05)
    assert found.unmatched_s < 0.1 * found.whole_s


times = st.floats(min_value=0.0, max_value=1.0)
operators = st.builds(Operator, name=st.just("matmul"), exposed_s=times, hidden_s=times, is_communication=st.booleans())
modules = st.lists(st.tuples(st.sampled_from(["mlp", "qkv"]), st.lists(operators, max_size=4)), max_size=4)
blocks = st.lists(st.builds(Block, name=st.just("layer"), repeats=st.integers(1, 3), modules=modules), max_size=3)


@settings(max_examples=60, deadline=None)
@given(blocks=blocks, start=times, length=st.floats(min_value=1e-6, max_value=10.0))
def test_whatever_is_inside_of_a_pass_nests_and_stays_in_it(blocks, start, length):
    found = json.loads(trace_text({0: "device"}, list(drawn(blocks, 0, start, start + length)), {}))
    assert not crossing(found)
    for span in spans_of(found):
        assert span["ts"] >= start * 1e6 - 1e-3
        assert span["ts"] + span["dur"] <= (start + length) * 1e6 + 1e-3


def test_what_encloses_an_equally_long_slice_comes_before_it():
    block = Block(name="layer", repeats=2, modules=[("mlp", [Operator(name="matmul", exposed_s=0.5)])])
    found = json.loads(trace_text({0: "device"}, drawn([block], 0, 0.0, 1.0), {}))
    assert [span["name"] for span in spans_of(found)] == ["layer 0", "mlp", "matmul", "layer 1", "mlp", "matmul"]


def test_no_events_are_an_empty_trace():
    assert json.loads(trace_text({}, [], {}))["traceEvents"] == []
