"""Loads that are read from traces."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loads import BASE, same, whole

from sightline.errors import InputError
from sightline.scenario import Arrival, Serve, ServedAdapters, ServingScenario
from sightline.simulation.load import joined, load_of

TIMES = [0.0, 1.0, 1.0, 4.0]


def trace(folder: Path, text: str = "", name: str = "load.csv") -> Path:
    rows = "".join(f"{time},{10 + i},{20 + i}\n" for i, time in enumerate(TIMES))
    (folder / name).write_text(text or f"arrival_s,prompt_tokens,output_tokens\n{rows}")
    return folder / name


AS_TRACED = Arrival(process="trace")


def replay(path: Path, arrival: Arrival = AS_TRACED) -> ServingScenario:
    return replace(BASE, workload=Serve(trace=str(path), arrival=arrival))


def test_requests_come_at_the_times_of_the_trace(tmp_path):
    load = whole(replay(trace(tmp_path)))
    assert load.arrival_s.tolist() == TIMES
    assert load.prompt_tokens.tolist() == [10, 11, 12, 13]
    assert load.output_tokens.tolist() == [20, 21, 22, 23]


def test_a_rate_scales_the_times(tmp_path):
    load = whole(replay(trace(tmp_path), Arrival(process="trace", rate=3.0)))
    assert load.arrival_s == pytest.approx([0.0, 0.25, 0.25, 1.0])


def test_a_process_sends_the_requests_of_the_trace_at_its_own_times(tmp_path):
    load = whole(replay(trace(tmp_path), Arrival(process="constant", rate=2.0)))
    assert load.arrival_s.tolist() == [0.0, 0.5, 1.0, 1.5]
    assert load.prompt_tokens.tolist() == [10, 11, 12, 13]


def test_times_that_are_all_the_same_have_no_rate(tmp_path):
    path = trace(tmp_path, "prompt_tokens,output_tokens\n5,6\n7,8\n")
    with pytest.raises(InputError, match=r"workload.arrival.rate is 2, but all requests of .* arrive at once"):
        whole(replay(path, Arrival(process="trace", rate=2.0)))
    assert whole(replay(path)).arrival_s.tolist() == [0.0, 0.0]


def test_requests_ask_for_the_adapters_of_the_plan_unless_the_trace_says_which(tmp_path):
    asked = replay(trace(tmp_path))
    asked = replace(asked, plan=replace(asked.plan, lora_adapters=ServedAdapters(count=1)))
    assert whole(asked).adapter.tolist() == [0, 0, 0, 0]
    trace(tmp_path, "arrival_s,prompt_tokens,output_tokens,adapter\n0,1,1,de\n0,1,1,en\n0,1,1,de\n")
    assert whole(asked).adapter.tolist() == [0, 1, 0]


def test_what_is_left_out_is_told(tmp_path):
    told: list[str] = []
    path = trace(tmp_path, "arrival_s,prompt_tokens,output_tokens\n0,5,5\n1,5,0\n2,5")
    assert len(joined(list(load_of(replay(path), on_remark=told.append)))) == 1
    incomplete, skipped = told
    assert incomplete.startswith(f"{path} line 4 is incomplete")
    assert skipped.startswith(f"{path}: skipped 1 request")


@given(st.integers(1, 300), st.integers(1, 400), st.sampled_from(["csv", "jsonl"]))
def test_the_size_of_parts_makes_no_difference(tmp_path_factory, count, part, kind):
    path = tmp_path_factory.mktemp("parts") / f"load.{kind}"
    times = np.cumsum(np.arange(count) % 7)
    rows = [{"arrival_s": int(t), "prompt_tokens": i + 1, "output_tokens": 3} for i, t in enumerate(times)]
    if kind == "csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    else:
        lines = list(map(json.dumps, rows))
    path.write_text("\n".join(lines) + "\n")
    parts = list(load_of(replay(path), part))
    assert {len(one) for one in parts[:-1]} <= {part}
    assert same(joined(parts), whole(replay(path)))
    assert joined(parts).prompt_tokens.tolist() == list(range(1, count + 1))
