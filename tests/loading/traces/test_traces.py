"""Traces: public shapes by their headers, and what is said of wrong files."""

import gzip
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from sightline.errors import InputError
from sightline.loading.traces import measured_in, open_trace
from sightline.loading.traces.tables import BLOCK_BYTES

OWN = "arrival_s,prompt_tokens,output_tokens\n"
ROWS = [
    {"arrival_s": 0.5, "prompt_tokens": 3, "output_tokens": 4},
    {"arrival_s": 2, "prompt_tokens": 5, "output_tokens": 6},
]


def written(folder: Path, text: str | bytes, name: str = "load.csv") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(path: Path, told: list[str] | None = None) -> dict[str, list[Any]]:
    said = [] if told is None else told
    parts = list(open_trace(path, said.append).columns(said.append))
    return {name: np.concatenate([part[name] for part in parts]).tolist() for name in parts[0] if name != "line"}


def refused(path: Path) -> tuple[str, ...]:
    with pytest.raises(InputError) as found:
        read(path)
    return tuple(problem.replace(f"{path.parent}/", "") for problem in found.value.problems)


def tables(folder: Path) -> dict[str, Path]:
    """The same requests in every kind of table."""
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    cells = OWN + "0.5,3,4\n2,5,6\n"
    parquet = folder / "load.parquet"
    polars.DataFrame(ROWS, strict=False).write_parquet(parquet)
    return {
        "csv": written(folder, cells),
        "unended": written(folder, cells.strip(), "unended.csv"),
        "windows": written(folder, b"\xef\xbb\xbf" + cells.replace("\n", "\r\n").encode(), "windows.csv"),
        "semicolons": written(folder, cells.replace(",", ";"), "semicolons.csv"),
        "tabs": written(folder, cells.replace(",", "\t"), "load.tsv"),
        "blank lines": written(folder, "\n \n" + cells.replace("\n", "\n\n"), "blank.csv"),
        "quoted": written(folder, OWN + '"0.5","3","4"\n"2","5","6"\n', "quoted.csv"),
        "other order": written(folder, "output_tokens,x,ARRIVAL_S,prompt_tokens\n4,a,0.5,3\n6,b,2,5\n", "other.csv"),
        "csv.gz": written(folder, gzip.compress(cells.encode()), "load.csv.gz"),
        "jsonl": written(folder, "\n" + lines, "load.jsonl"),
        "jsonl.gz": written(folder, gzip.compress(lines.encode()), "load.jsonl.gz"),
        "list": written(folder, json.dumps(ROWS, indent=1), "load.json"),
        "requests": written(folder, json.dumps({"requests": ROWS}), "requests.json"),
        "parquet": parquet,
    }


def test_every_kind_of_table_gives_the_same_requests(tmp_path):
    wanted = {"arrival_s": [0.5, 2.0], "prompt_tokens": [3, 5], "output_tokens": [4, 6]}
    assert {kind: read(path) for kind, path in tables(tmp_path).items()} == dict.fromkeys(tables(tmp_path), wanted)


def test_optional_columns_may_be_empty(tmp_path):
    rows = "0,9,4,sys,3,a,0,1,de\n1,9,4,,,,2.5,,\n2,9,4,sys,4,a,,,de\n"
    header = OWN.strip() + ",prefix_id,prefix_tokens,session_id,think_s,priority,adapter\n"
    found = read(written(tmp_path, header + rows))
    assert (found["prefix_id"], found["prefix_tokens"]) == ([0, -1, 0], [3, 0, 4])
    assert (found["session_id"], found["think_s"]) == ([0, -1, 0], [0.0, 2.5, 0.0])
    assert (found["priority"], found["adapter"]) == ([1, 0, 0], [0, -1, 0])


def test_a_prefix_without_its_length_is_the_whole_prompt(tmp_path):
    found = read(written(tmp_path, OWN.strip() + ",prefix_id\n0,9,4,7\n1,8,4,-1\n"))
    assert (found["prefix_id"], found["prefix_tokens"]) == ([0, -1], [9, 0])


def guidellm(begin_s: float, prompt: int, output: int) -> dict[str, Any]:
    times = {
        "request_start": begin_s,
        "first_request_iteration": begin_s + 0.25,
        "last_request_iteration": begin_s + 0.5,
    }
    return {
        "info": {"timings": times},
        "input_metrics": {"text_tokens": prompt, "total_tokens": prompt},
        "output_metrics": {"text_tokens": output, "total_tokens": output},
    }


def aiperf(begin_s: float, prompt: int, output: int) -> dict[str, Any]:
    metrics = {
        "input_sequence_length": {"value": prompt, "unit": "tokens"},
        "output_sequence_length": {"value": output, "unit": "tokens"},
        "time_to_first_token": {"value": 250.0, "unit": "ms"},
        "request_latency": {"value": 500.0, "unit": "ms"},
    }
    return {"metadata": {"request_start_ns": int((1.75e9 + begin_s) * 1e9)}, "metrics": metrics, "error": None}


def inference_perf(begin_s: float, prompt: int, output: int) -> dict[str, Any]:
    times = [begin_s + 0.25 + 0.25 * token / (output - 1) for token in range(output)]
    info = {"input_tokens": prompt, "output_tokens": output, "output_token_times": times}
    return {"start_time": begin_s, "end_time": times[-1], "info": info, "error": None}


SHAPES = {
    "log of a server": '{"timestamp": "2024-05-10T00:00:00Z", "usage": {"prompt_tokens": 3, "completion_tokens": 4}}\n'
    '{"timestamp": "2024-05-10T00:00:01.5Z", "usage": {"prompt_tokens": 5, "completion_tokens": 6}}\n',
    "log": "arrival_time,input_tokens,completion_tokens\n1700000000,3,4\n1700000001.5,5,6\n",
    "Qwen-Bailian": '{"chat_id": 1, "timestamp": 2.0, "input_length": 3, "output_length": 4, "hash_ids": [0]}\n'
    '{"chat_id": 2, "timestamp": 3.5, "input_length": 5, "output_length": 6, "hash_ids": [0]}\n',
    "Azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,3,4\n2023-11-16 18:15:48.1805900,5,6\n",
    "Azure 2024": "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 23:59:59.5+00:00,3,4\n2024-05-11 00:00:01+00:00,5,6",
    "Mooncake": '{"timestamp": 1000, "input_length": 3, "output_length": 4, "hash_ids": [0]}\n'
    '{"timestamp": 2500, "input_length": 5, "output_length": 6, "hash_ids": [0]}\n',
    "BurstGPT": "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,3,4,7,API log\n"
    "6.5,GPT-4,5,6,11,API log\n",
    "SplitwiseSim": "request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n"
    "0,2,0,1.0,1,3,4\n1,2,0,2.5,1,5,6\n",
    "Vidur": "arrived_at,num_prefill_tokens,num_decode_tokens\n1,3,4\n2.5,5,6\n",
    "LLMServingSim": '{"input_toks": 3, "output_toks": 4, "arrival_time_ns": 0}\n'
    '{"input_toks": 5, "output_toks": 6, "arrival_time_ns": 1500000000}\n',
    "vllm bench serve": json.dumps(
        {"duration": 9, "input_lens": [5, 3], "output_lens": [6, 4], "start_times": [103.5, 102.0], "errors": ["", ""]}
    ),
    "guidellm": json.dumps(
        {
            "benchmarks": [
                {
                    "requests": {
                        "successful": [
                            {"request_start_time": 7.5, "prompt_tokens": 5, "output_tokens": 6},
                            {"request_start_time": 6.0, "prompt_tokens": 3, "output_tokens": 4},
                        ],
                        "incomplete": [],
                    }
                }
            ]
        }
    ),
    "guidellm 0.5": json.dumps(
        {
            "metadata": {"guidellm_version": "0.5.0"},
            "benchmarks": [
                {
                    "config": {"strategy": {"type_": "constant", "rate": 0.7}},
                    "requests": {"successful": [guidellm(7.5, 5, 6), guidellm(6.0, 3, 4)], "errored": []},
                }
            ],
        }
    ),
    "aiperf": "".join(json.dumps(aiperf(*row)) + "\n" for row in ((1, 3, 4), (2.5, 5, 6))),
    "inference-perf": json.dumps([inference_perf(2.5, 5, 6), inference_perf(1, 3, 4)], indent=1),
}
"""The same requests, 1.5 seconds apart, in public shapes. Those with times answer after 0.25 and 0.5 seconds."""


@pytest.mark.parametrize("name", SHAPES)
def test_public_traces_are_recognized(tmp_path, name):
    path = written(tmp_path, SHAPES[name], "load.txt")
    trace = open_trace(path)
    assert name.split()[0].lower() in trace.shape.name.lower()
    found = read(path)
    assert found["arrival_s"] == pytest.approx([0.0, 1.5])
    assert (found["prompt_tokens"], found["output_tokens"]) == ([3, 5], [4, 6])


TIMED = ("guidellm 0.5", "aiperf", "inference-perf")


@pytest.mark.parametrize("name", TIMED)
def test_logs_of_load_clients_say_what_was_measured(tmp_path, name):
    found = measured_in(written(tmp_path, SHAPES[name], "log.json"))
    assert found is not None
    assert found["requests"] == str(tmp_path / "log.json")
    assert found["ttft_s"] == {"mean": pytest.approx(0.25, abs=1e-6)}
    assert found["tpot_s"] == {"mean": pytest.approx((0.25 / 3 + 0.25 / 5) / 2, abs=1e-6)}
    assert found["latency_s"] == {"mean": pytest.approx(0.5, abs=1e-6)}
    assert found["output_tokens_per_s"] == pytest.approx(10 / 2.0, rel=1e-6)


@pytest.mark.parametrize("name", TIMED)
def test_logs_of_load_clients_have_the_times_of_tokens(tmp_path, name):
    columns = open_trace(written(tmp_path, SHAPES[name], "log.json")).whole()
    first = columns["first_token_s"] if "first_token_s" in columns else columns["arrival_s"] + columns["ttft_s"]
    assert first - columns["arrival_s"] == pytest.approx([0.25, 0.25], abs=1e-6)


SUMMARIES: dict[str, dict[str, Any]] = {
    "vllm": {"request_rate": 4.0, "mean_ttft_ms": 60.0, "mean_tpot_ms": 10.0, "output_throughput": 420.0},
    "guidellm": {
        "benchmarks": [
            {
                "metrics": {
                    "time_to_first_token_ms": {"successful": {"mean": 60.0}},
                    "inter_token_latency_ms": {"successful": {"mean": 10.0}},
                    "output_tokens_per_second": {"successful": {"mean": 420.0}},
                }
            }
        ]
    },
    "aiperf": {
        "input_config": {},
        "time_to_first_token": {"unit": "ms", "avg": 60.0},
        "inter_token_latency": {"unit": "ms", "avg": 10.0},
        "output_token_throughput": {"avg": 420.0},
    },
    "inference-perf": {
        "load_summary": {"count": 4},
        "successes": {
            "latency": {"time_to_first_token": {"mean": 0.06}, "time_per_output_token": {"mean": 0.01}},
            "throughput": {"output_tokens_per_sec": 420.0},
        },
    },
    "InferenceX": {"tput_per_gpu": 800.0, "output_tput_per_gpu": 420.0, "mean_ttft": 0.06, "mean_tpot": 0.01},
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_figures_of_load_clients_are_measurements(tmp_path, name):
    path = written(tmp_path, json.dumps(SUMMARIES[name]), "result.json")
    found = measured_in(path)
    assert found is not None
    assert name in found["source"]
    rate = "output_tokens_per_s_per_device" if name == "InferenceX" else "output_tokens_per_s"
    assert found["ttft_s"]["mean"] == pytest.approx(0.06)
    assert (found["tpot_s"]["mean"], found[rate]) == (pytest.approx(0.01), pytest.approx(420.0))
    assert "requests" not in found
    assert "without its requests" in refused(path)[0]


def test_what_no_client_wrote_is_no_measurement(tmp_path):
    assert measured_in(written(tmp_path, json.dumps({"model": "llama-2-7b"}), "scenario.json")) is None
    assert measured_in(written(tmp_path, "model: llama-2-7b\n", "scenario.yaml")) is None


@pytest.mark.parametrize(
    ("stated", "arrival"),
    [
        ({"request_rate": 4.0}, {"process": "poisson", "rate": 4.0}),
        ({"request_rate": 4.0, "burstiness": 0.25}, {"process": "gamma", "cv": 2.0, "rate": 4.0}),
        ({"request_rate": "inf", "max_concurrency": 8}, {"process": "closed", "concurrency": 8}),
        ({"request_rate": 4.0, "max_concurrency": 8}, {"process": "poisson", "rate": 4.0, "concurrency": 8}),
        ({"request_rate": "inf"}, {}),
    ],
)
def test_how_a_client_sent_its_load_is_its_arrival(tmp_path, stated, arrival):
    path = written(tmp_path, json.dumps({"input_lens": [5, 3], "output_lens": [6, 4], **stated}), "result.jsonl")
    assert open_trace(path).shape.arrival == arrival


@pytest.mark.parametrize("header", ["num_prefill_tokens,num_decode_tokens", "ContextTokens,GeneratedTokens"])
def test_lengths_of_public_traces_need_no_times(tmp_path, header):
    assert read(written(tmp_path, f"{header}\n5,6\n")) == {"prompt_tokens": [5], "output_tokens": [6]}


def test_conversations_of_agents_wait_for_the_answer_before(tmp_path):
    turns = [
        {"t": 0.0, "in": 418, "out": 20, "hash_ids": [0, 1], "api_time": 2.0},
        {"t": 5.0, "in": 900, "out": 30, "hash_ids": [0, 1, 2], "api_time": 1.0},
    ]
    talk = {"block_size": 64, "hash_id_scope": "local", "requests": turns}
    found = read(written(tmp_path, f"{json.dumps(talk)}\n" * 2, "weka.jsonl"))
    assert (found["prompt_tokens"], found["session_id"]) == ([418, 900] * 2, [0, 0, 1, 1])
    assert found["think_s"] == [0.0, 3.0] * 2


@pytest.mark.parametrize(
    ("factor", "unit"), [(1, ""), (1000, "milliseconds"), (1_000_000, "microseconds"), (1_000_000_000, "nanoseconds")]
)
def test_the_unit_of_a_clock_is_told_by_its_size(tmp_path, factor, unit):
    times = [1_700_000_000 * factor, 1_700_000_001 * factor + factor // 2]
    rows = "".join(f"{time},3,4\n" for time in times)
    told: list[str] = []
    found = read(written(tmp_path, "timestamp,prompt_tokens,output_tokens\n" + rows), told)
    assert found["arrival_s"] == pytest.approx([0.0, 1.5 if unit else 1.0], abs=1e-6)
    path = tmp_path / "load.csv"
    said = f"{path}: times such as {times[0]} are read as {unit} since 1970 (2023-11-14T22:13:20)"
    assert told == ([said] if unit else [])


def test_an_own_trace_has_seconds_from_its_begin(tmp_path):
    assert "allowed: seconds, 0 or more" in refused(written(tmp_path, OWN + "1700000000000,3,4\n"))[0]


def test_times_without_blocks_are_seconds(tmp_path):
    path = written(tmp_path, "timestamp,input_length,output_length\n1,3,4\n2.5,5,6\n")
    assert "seconds" in open_trace(path).shape.name
    assert read(path)["arrival_s"] == [0.0, 1.5]


def test_offsets_of_time_zones_count(tmp_path):
    rows = "2024-05-10T12:00:00+02:00,3,4\n2024-05-10T10:00:05+00:00,5,6\n"
    assert read(written(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows))["arrival_s"] == [0.0, 5.0]


LOG = "timestamp,prompt_tokens,output_tokens\n"


@pytest.mark.parametrize(
    "time",
    [
        *(
            "2026-02-30 10:00:00",
            "2016-12-31 23:59:60",
            "2024-05-10 24:00:00",
            "2024-13-01 10:00:00",
            "0001-01-01 00:00",
        ),
        *("9999-12-31 23:59:59", "2024-05-10 10:00:00.5.5", "2024-05-10 10:00:00Z", "-3", "soon"),
    ],
)
def test_what_is_no_date_of_the_calendar_is_a_sentence(tmp_path, time):
    path = written(tmp_path, f"{LOG}2024-05-10 10:00:00,3,4\n{time},3,4\n")
    (problem,) = refused(path)
    faults = {"2026-02-30": " (no such day)", "2024-13-01": " (no such day)", "2016-12-31": " (leap second)"}
    fault = " (mix of zones)" if time.endswith("Z") else faults.get(time[:10], "")
    assert problem.startswith(f"load.csv line 3: timestamp is '{time}'{fault}; allowed: a number, or a date")


def test_a_first_day_that_no_month_has_is_a_sentence(tmp_path):
    path = written(tmp_path, f"{LOG}2026-02-30 10:00:00,3,4\n2026-03-01 10:00:00,3,4\n")
    (problem,) = refused(path)
    assert problem.startswith(
        "load.csv line 2: timestamp is '2026-02-30 10:00:00' (no such day); allowed: a number, or a date"
    )


@pytest.mark.parametrize(
    ("first", "second", "apart_s"),
    [
        ("2024-02-29T23:59:59Z", "2024-03-01T00:00:00.5Z", 1.5),
        ("2024-05-10T12:00:00+02:00", "2024-05-10T06:00:05-04:00", 5.0),
        ("2024-05-10T23:59:59.000000001", "2024-05-11 00:00:00.000000001", 1.0),
        ("1999-12-31 23:59", "2000-01-01 00:00", 60.0),
        ("-5", "-3.5", 1.5),
    ],
)
def test_dates_and_numbers_of_any_clock_are_read(tmp_path, first, second, apart_s):
    found = read(written(tmp_path, f"{LOG}{first},3,4\n{second},5,6\n"))
    assert found["arrival_s"] == pytest.approx([0.0, apart_s], abs=1e-9)


@pytest.mark.parametrize(
    "times",
    [
        ["2024-05-10 10:00:00.007", "2024-05-10 10:00:00.003", "2024-05-10 10:00:05"],
        ["1700000000007", "1700000000003", "1700000005000"],
        ["0.007", "0.003", "5"],
    ],
)
def test_rows_a_little_out_of_order_are_sorted_with_a_remark(tmp_path, times):
    told: list[str] = []
    found = read(written(tmp_path, LOG + "".join(f"{time},{i},4\n" for i, time in enumerate(times, 1))), told)
    assert found["arrival_s"] == pytest.approx([0.0, 0.004, found["arrival_s"][2]], abs=1e-6)
    assert found["prompt_tokens"] == [2, 1, 3]
    assert any("sorted 1 out-of-order row (up to 4 ms" in sentence for sentence in told)


def test_rows_of_our_own_trace_are_sorted_and_keep_their_begin(tmp_path):
    told: list[str] = []
    found = read(written(tmp_path, OWN + "2.005,1,1\n2,2,2\n2,3,3\n"), told)
    assert (found["arrival_s"], found["prompt_tokens"], len(told)) == ([2.0, 2.0, 2.005], [2, 3, 1], 1)


def test_rows_are_sorted_across_the_blocks_of_a_file(tmp_path):
    times = [i / 1000 for i in range(BLOCK_BYTES // 18 * 2)]
    places = [*range(len(times))]
    for i in range(1, len(times), 7):
        places[i - 1], places[i] = i, i - 1
    told: list[str] = []
    path = written(tmp_path, OWN + "".join(f"{times[i]:.9f},100,200\n" for i in places))
    assert np.array_equal(read(path, told)["arrival_s"], times)
    assert f"sorted {len(range(1, len(times), 7)):,} out-of-order rows" in told[0]


def test_times_of_dates_in_parquet_are_read(tmp_path):
    import polars

    begin = datetime(2024, 5, 10, 10, tzinfo=UTC)
    times = [begin, begin + timedelta(milliseconds=1500)]
    polars.DataFrame({"timestamp": times, "prompt_tokens": [3, 5], "output_tokens": [4, 6]}).write_parquet(
        tmp_path / "load.parquet"
    )
    assert read(tmp_path / "load.parquet")["arrival_s"] == [0.0, 1.5]


def test_blocks_of_prompts_tell_shared_prefixes_and_conversations(tmp_path):
    rows = [
        {"timestamp": 0, "input_length": 1100, "output_length": 100, "hash_ids": [0, 1, 2]},
        {"timestamp": 1, "input_length": 600, "output_length": 10, "hash_ids": [0, 9]},
        {"timestamp": 2, "input_length": 1500, "output_length": 50, "hash_ids": [0, 1, 3]},
        {"timestamp": 3, "input_length": 1540, "output_length": 50, "hash_ids": [0, 1, 4, 5]},
        {"timestamp": 4, "input_length": 100, "output_length": 50, "hash_ids": [7]},
    ]
    found = read(written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "load.jsonl"))
    # The third goes on with the first; the fourth is another continuation of it, which is computed again.
    assert found["session_id"] == [0, 1, 0, 2, 3]
    assert found["prefix_id"] == [1, 0, 1, 1, -1]
    assert found["prefix_tokens"] == [1024, 512, 1024, 1024, 0]


def test_turns_of_conversations_have_a_token_for_four_characters(tmp_path):
    talk = [("human", "x" * 40), ("gpt", "y" * 9), ("human", "z" * 8), ("gpt", "w" * 4)]
    document = [{"id": "a", "conversations": [{"from": who, "value": said} for who, said in talk]}, {"id": "b"}]
    document.append({"id": "c", "conversations": [{"from": "gpt", "value": "hello"}]})
    told: list[str] = []
    found = read(written(tmp_path, json.dumps([document[0], *document]), "chats.json"), told)
    assert found["prompt_tokens"] == [10, 15] * 2
    assert found["output_tokens"] == [3, 1] * 2
    lines = "".join(json.dumps(one) + "\n" for one in [document[0], *document])
    assert read(written(tmp_path, lines, "chats.jsonl")) == found
    assert found["session_id"] == [0, 0, 1, 1]
    assert "4 characters" in told[0]


def test_requests_without_an_answer_are_left_out_and_told(tmp_path):
    told: list[str] = []
    text = "Timestamp,Model,Request tokens,Response tokens\n1,a,5,0\n2,a,5,5\n3,a,5,\n"
    assert read(written(tmp_path, text), told)["prompt_tokens"] == [5]
    assert told[0].startswith(f"{tmp_path}/load.csv: skipped 2 requests")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (OWN + "0,1,1\n1,2,2\n2,3", 2),
        ('{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 1}\n{"arrival_s": 1, "pro', 1),
    ],
)
def test_a_torn_last_line_is_told_and_the_rest_kept(tmp_path, text, rows):
    told: list[str] = []
    assert len(read(written(tmp_path, text), told)["prompt_tokens"]) == rows
    (said,) = told
    assert f"load.csv line {text.count(chr(10)) + 1} is incomplete" in said


@pytest.mark.parametrize("is_json", [False, True])
def test_blank_lines_are_told_where_rows_follow(tmp_path, is_json):
    rows = [json.dumps(row) for row in ROWS] if is_json else ["0.5,3,4", "2,5,6"]
    first = 2 if is_json else 3
    told: list[str] = []
    for between, said in (
        ("", []),
        ("\n", [f"line {first}"]),
        ("\n \n\n", [f"line {first} and 2 more lines"]),
    ):
        told.clear()
        text = ("" if is_json else OWN) + rows[0] + "\n" + between + rows[1] + "\n\n\n"
        assert read(written(tmp_path, text), told)["prompt_tokens"] == [3, 5]
        assert told == [f"skipped blank line: {tmp_path}/load.csv {sentence}" for sentence in said]


def test_a_last_number_that_may_be_cut_is_told(tmp_path):
    told: list[str] = []
    assert read(written(tmp_path, OWN + "0,1,1\n1,2,5"), told)["output_tokens"] == [1, 5]
    (said,) = told
    assert "load.csv line 3 ends without a line break" in said
    told.clear()
    read(written(tmp_path, json.dumps(ROWS[0]) + "\n" + json.dumps(ROWS[1]), "load.jsonl"), told)
    assert not told


def test_a_compressed_file_that_was_cut_off_keeps_what_is_whole(tmp_path):
    rows = "".join(f"{i},{i % 97 + 1},{i % 89 + 1}\n" for i in range(50_000))
    whole = gzip.compress((OWN + rows).encode())
    told: list[str] = []
    found = read(written(tmp_path, whole[: len(whole) // 2], "load.csv.gz"), told)
    assert 10_000 < len(found["prompt_tokens"]) < 50_000


def test_a_file_of_many_blocks_keeps_its_order_and_line_numbers(tmp_path):
    rows = [f"{i}.000000000,100,200\n" for i in range(BLOCK_BYTES // 18 * 2)]
    path = written(tmp_path, OWN + "".join(rows))
    assert read(path)["arrival_s"] == [float(i) for i in range(len(rows))]
    rows[-3] = "x,1,1\n"
    written(tmp_path, OWN + "".join(rows))
    assert refused(path) == (f"load.csv line {len(rows) - 1}: arrival_s is 'x'; allowed: seconds, 0 or more",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "load.csv is empty"),
        (OWN, "load.csv has no requests"),
        (OWN + "0,1,0\n", "load.csv has no requests"),
        (
            OWN + "0,1e15,1\n",
            "load.csv line 2: prompt_tokens is '1e15'",
        ),
        (OWN + "nan,1,1\n", "load.csv line 2: arrival_s is 'nan'"),
        (OWN + "0,1,1\n-1,1,1\n", "load.csv line 3: arrival_s is '-1'"),
        (OWN + "0,1.5,1\n", "load.csv line 2: prompt_tokens is '1.5'"),
        (OWN + "0,1,1\n0,,1\n0,1,1\n", "load.csv line 3: prompt_tokens is empty"),
        (OWN + "0,1,-4\n", "load.csv line 2: output_tokens is '-4'"),
        (OWN + "0,1,1\n1,1,1,9\n", "load.csv line 3 has 4 cells; the header has 3"),
        (
            OWN + "5,1,1\n\n3,1,1\n",
            "load.csv line 4: arrival_s '3' is earlier",
        ),
        (
            "arrivals,prompt_tokens,output_tokens\n0,1,1\n",
            "load.csv lacks the column arrival_s - did you mean 'arrivals'?",
        ),
        ('{"input_lens": []}\n{"input_lens": []}\n', "load.csv has 2 results; allowed: one"),
        (
            "arrival_s,prompt_token,output_tokens\n0,1,1\n",
            "load.csv lacks the column prompt_tokens - did you mean 'prompt_token'?; a trace has arrival_s, prompt_toke",
        ),
        (
            "a,b\n1,2\n",
            "load.csv has columns a, b, ",
        ),
        (
            '{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 1}\n{"arr\n{}\n',
            "load.csv line 2 is not valid JSON: ",
        ),
        (
            '{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 1}\n{"arrival_s": 1, "output_tokens": 1}\n',
            "load.csv line 2: prompt_tokens is empty",
        ),
        ('{"a": {"b": 1}}', "load.csv has columns a, "),
        ("[1, 2]", "load.csv is not a known requests file"),
        ("[1, 2", "load.csv is not valid JSON: "),
        ('{"input_lens": [1]}', "load.csv lacks output_lens"),
        ('{"benchmarks": [{}, {}]}', "load.csv has 2 benchmarks; allowed: one"),
        (
            OWN.strip() + ",prefix_id,prefix_tokens\n0,5,1,1,6\n",
            "load.csv line 2: prefix_tokens is 6",
        ),
    ],
)
def test_a_wrong_file_is_a_sentence(tmp_path, text, said):
    assert refused(written(tmp_path, text))[0].startswith(said)


def test_lengths_need_no_times(tmp_path):
    path = written(tmp_path, "prompt_tokens,output_tokens\n5,6\n")
    assert open_trace(path).shape.name.startswith("a table of lengths without times")
    assert read(path) == {"prompt_tokens": [5], "output_tokens": [6]}


def test_many_wrong_lines_are_counted(tmp_path):
    problems = refused(written(tmp_path, OWN + "x,1,1\n" * 20))
    assert (len(problems), problems[-1]) == (9, "12 more rows are invalid")


def test_a_broken_parquet_file_is_a_sentence(tmp_path):
    assert refused(written(tmp_path, b"PAR1 and nothing else"))[0].startswith("load.csv is not valid Parquet: ")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{**ROWS[0], "prompt_tokens": 10**400}], "request 1: prompt_tokens is 1"),
        ([{**ROWS[0], "arrival_s": "now", "prompt_tokens": 10**400}], "request 1: arrival_s is 'now'"),
        (
            [{"conversations": [{"from": "gpt", "value": "x"}]}, {"conversations": ["hello"]}],
            "conversation 2 is not a list",
        ),
        ([{"conversations": {"from": "gpt"}}], "conversation 1 is not a list"),
        ({"benchmarks": [{"requests": {"successful": ["done"]}}]}, "guidellm"),
        ({"benchmarks": [{"requests": ["done"]}]}, "guidellm"),
        ({"benchmarks": ["done"]}, "guidellm"),
    ],
)
def test_documents_of_another_form_are_refused(tmp_path, rows, said):
    (problem, *_) = refused(written(tmp_path, json.dumps(rows), "load.json"))
    assert any(part in problem for part in said.split("|"))


@pytest.mark.parametrize("chain", [7, "[0, 1]", [0, "x"], [[1]], {"x": 1}])
def test_blocks_of_a_prompt_are_a_list_of_numbers(tmp_path, chain):
    row = {"timestamp": 0, "input_length": 600, "output_length": 3, "hash_ids": chain}
    (problem,) = refused(written(tmp_path, json.dumps(row) + "\n", "load.jsonl"))
    assert "load.jsonl line 1: hash_ids is" in problem
    assert problem.endswith("allowed: a list of whole numbers")


@pytest.mark.parametrize("cell", [[10], {"tokens": 10}])
def test_a_nested_column_of_parquet_is_no_number(tmp_path, cell):
    path = tmp_path / "load.parquet"
    polars.DataFrame([{**row, "prompt_tokens": cell} for row in ROWS]).write_parquet(path)
    assert refused(path)[0].startswith(f"load.parquet row 1: prompt_tokens is {cell}; ")


def test_parquet_that_claims_more_than_it_holds_is_refused(tmp_path):
    path = tmp_path / "load.parquet"
    polars.DataFrame(ROWS).write_parquet(path)
    content = path.read_bytes()
    begin = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    for place in range(begin, len(content) - 8, 16):
        damaged = bytearray(content)
        damaged[place] = 0xFE
        path.write_bytes(damaged)
        with suppress(InputError):
            read(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[" * 99_999, "is not valid JSON: nested too deeply"),
        (b"[" + b"9" * 5000 + b"]", "is not valid JSON: a whole number has more than 4,300 digits"),
        (b'{"arrival_s": ' + b"9" * 5000 + b"}\n", "is not valid JSON: a whole number has more than 4,300 digits"),
        (b'{"arrival_s": 0}\n{"a": ' + b"[" * 99_999 + b"\n", "line 2 is not valid JSON: nested too deeply"),
        (b"arrival_s,prompt\r_tokens,output_tokens\n0,1,2\n", "line 1 is not valid CSV: new-line character"),
    ],
)
def test_lines_that_are_no_rows_are_named(tmp_path, content, said):
    (problem, *_) = refused(written(tmp_path, content))
    assert any(part in problem for part in said.split("|"))


@pytest.mark.parametrize("begin", [OWN, "[1"])
def test_packed_files_that_have_no_end_are_refused_before_they_fill_memory(tmp_path, monkeypatch, begin):
    monkeypatch.setattr("sightline.loading.traces.documents.LARGEST", 10**6)
    monkeypatch.setattr("sightline.loading.traces.tables.LONGEST_LINE", 10**6)
    path = written(tmp_path, gzip.compress(begin.encode() + b"0" * 6 * 10**6), "load.csv.gz")
    assert "er than" in refused(path)[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("load.csv", "arrival_s,prompt_tokens,output_tokens,Model,images,quux layers\n0,1,1,a,2,3\n"),
        (
            "load.json",
            '[{"timestamp": 0, "input_length": 1, "output_length": 1, "model": "a", "images": 2, "quux layers": 3}]',
        ),
    ],
)
def test_columns_that_nobody_reads_are_said_but_those_that_change_nothing(tmp_path, name, text):
    told: list[str] = []
    open_trace(written(tmp_path, text, name), told.append)
    (sentence,) = (one for one in told if "not read" in one)
    assert sentence.endswith(": images, quux layers")


def metrics(**values: Any) -> dict[str, Any]:
    return {key: {"unit": unit, "avg": value} for key, (value, unit) in values.items()}


@pytest.mark.parametrize(("unit", "seconds"), [("ms", 0.4), ("s", 400.0), ("sec", 400.0), ("us", 4e-4), ("ns", 4e-7)])
def test_figures_are_in_the_unit_beside_them(tmp_path, unit, seconds):
    stated = {"input_config": {}, **metrics(time_to_first_token=(400.0, unit), request_count=(8, "requests"))}
    found = measured_in(written(tmp_path, json.dumps(stated), "summary.json"))
    assert found is not None
    assert found["ttft_s"]["mean"] == pytest.approx(seconds)
    assert found["completed"] == 8


def test_a_unit_of_no_time_is_refused(tmp_path):
    stated = {"input_config": {}, **metrics(time_to_first_token=(400.0, "tokens"))}
    with pytest.raises(InputError, match="time_to_first_token"):
        measured_in(written(tmp_path, json.dumps(stated), "summary.json"))


def record(second: int, phase: str, error: Any = None) -> dict[str, Any]:
    sizes = {"input_sequence_length": {"value": 9}, "output_sequence_length": {"value": 3}}
    return {
        "metadata": {"request_start_ns": second * 10**9, "benchmark_phase": phase},
        "metrics": {} if error else {**sizes, "request_latency": {"value": 500.0, "unit": "ms"}},
        "error": error,
    }


def test_requests_of_the_warmup_and_failed_ones_are_skipped(tmp_path):
    rows = [record(0, "warmup"), record(1, "profiling"), record(2, "profiling"), record(3, "profiling", {"code": 499})]
    path = written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "records.jsonl")
    told: list[str] = []
    assert read(path, told)["arrival_s"] == [0.0, 1.0]
    assert sum("skipped 1 request" in sentence for sentence in told) == 2


@pytest.mark.parametrize("count", [0, 2])
def test_a_list_of_results_has_one(tmp_path, count):
    row = {"tput_per_gpu": 10.0, "mean_ttft": 0.5, "conc": 8}
    path = written(tmp_path, json.dumps([row] * count), "results.json")
    if count:
        with pytest.raises(InputError, match="2 results"):
            measured_in(path)
    found = measured_in(written(tmp_path, json.dumps([row]), "one.json"))
    assert found is not None
    assert found["ttft_s"] == {"mean": 0.5}
    assert found["sent"] == {"process": "closed", "concurrency": 8}


def test_a_result_without_a_known_figure_is_refused(tmp_path):
    with pytest.raises(InputError, match="without any of its figures"):
        measured_in(written(tmp_path, json.dumps({"input_config": {}, "records": [1]}), "other.json"))


def test_how_requests_were_sent_is_named_where_it_is_not_read(tmp_path):
    lists = {"input_lens": [9, 9], "output_lens": [3, 3]}
    stated = {"mean_ttft_ms": 1.0, "request_rate": 4.0, "max_concurrency": 2, "ramp_up_strategy": "linear", **lists}
    told: list[str] = []
    read(written(tmp_path, json.dumps(stated), "bench.json"), told)
    assert any("not read: ramp_up_strategy" in sentence for sentence in told)


def test_a_sample_of_the_requests_is_told(tmp_path):
    row = {"input_metrics": {"text_tokens": 9}, "output_metrics": {"text_tokens": 3}}
    times = {"info": {"timings": {"request_start": 1.0}}}
    run = {"metrics": {"request_totals": {"successful": 100}}, "requests": {"successful": [row | times]}}
    path = written(tmp_path, json.dumps({"benchmarks": [run]}), "benchmarks.json")
    told: list[str] = []
    read(path, told)
    assert any("1 of 100 requests" in sentence for sentence in told)
    assert (measured_in(path) or {})["completed"] == 100


def test_requests_that_agents_hand_to_others_are_told(tmp_path):
    turn = {"t": 0.0, "in": 9, "out": 3, "api_time": 1.0}
    talk = {"hash_id_scope": "local", "requests": [turn, {"t": 2.0, "type": "subagent", "requests": [turn]}]}
    told: list[str] = []
    assert read(written(tmp_path, json.dumps([talk]), "agents.json"), told)["arrival_s"] == [0, 2]
    assert any("recorded times" in sentence for sentence in told)


@pytest.mark.parametrize(
    ("stated", "name"),
    [
        ({"mean_ttft_ms": 1.0, "num_prompts": 8}, "a vllm bench serve result"),
        ({"mean_ttft_ms": 1.0, "mean_e2e_latency_ms": 9.0}, "an SGLang bench result"),
        ({"mean_ttft_ms": 1.0}, "a vllm or SGLang bench result"),
        ({"input_config": {"loadgen": {}}, "request_count": {"avg": 8}}, "an aiperf summary"),
        ({"input_config": {"perf_analyzer": {}}, "request_count": {"avg": 8}}, "a genai-perf summary"),
    ],
)
def test_a_client_is_told_by_its_own_keys(tmp_path, stated, name):
    assert (measured_in(written(tmp_path, json.dumps(stated), "result.json")) or {})["source"] == name


@pytest.mark.parametrize("is_list", [True, False])
def test_the_second_of_several_results_is_a_trace(tmp_path, is_list):
    runs = [{"input_lens": [9], "output_lens": [count], "start_times": [1.0]} for count in (3, 4)]
    text = json.dumps(runs) if is_list else "".join(json.dumps(run) + "\n" for run in runs)
    path = written(tmp_path, text, "runs.json")
    assert read(Path(f"{path}#2"))["output_tokens"] == [4]
    assert refused(Path(f"{path}#3"))


def test_a_trace_of_which_many_requests_failed_says_so(tmp_path):
    lists = {"input_lens": [9, 9], "output_lens": [3, 0], "start_times": [1.0, 2.0], "errors": ["", "timeout"]}
    told: list[str] = []
    read(written(tmp_path, json.dumps({**lists, "completed": 1}), "bench.json"), told)
    assert any("1 of 2 requests failed" in sentence for sentence in told)


def test_agents_go_on_with_the_transcript_that_their_blocks_tell(tmp_path):
    inner = [{"t": 4.0, "in": 200, "out": 5, "hash_ids": [0, 7, 8], "api_time": 1.0}]
    turns = [
        {"t": 0.0, "in": 130, "out": 20, "hash_ids": [0, 1, 2], "api_time": 2.0},
        {"t": 3.0, "type": "subagent", "requests": inner},
        {"t": 5.0, "in": 260, "out": 30, "hash_ids": [0, 1, 2, 3, 4], "api_time": 1.0, "think_time": 0.25},
        {"t": 8.0, "in": 140, "out": 9, "hash_ids": [0, 5, 6], "api_time": 1.0},
    ]
    talk = {"block_size": 64, "tool_tokens": 60, "system_tokens": 4, "requests": turns}
    found = read(written(tmp_path, json.dumps(talk, indent=1), "trace.json"))
    assert (found["arrival_s"], found["prompt_tokens"]) == ([0.0, 0.0, 0.0, 3.0], [130, 260, 140, 200])
    assert (found["session_id"], found["transcript"]) == ([0, 0, 0, 1], [0, 0, 1, 0])
    assert (found["think_s"], found["prefix_tokens"]) == ([0.0, 0.25, 2.0, 0.0], [64] * 4)
    assert set(found["prefix_id"]) == {0}
