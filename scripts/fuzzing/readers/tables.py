"""Tables of requests, of measured operators, and those that papers published."""

import csv
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from fuzzing import raw, values
from fuzzing.campaign import Maker
from fuzzing.inputs import Input
from fuzzing.readers.documents import EXAMPLES, ROOT, as_json, as_lines, written
from fuzzing.trees import Corpus

Row = Mapping[str, Any]

_REQUESTS: Final[Sequence[Sequence[Row]]] = (
    [{"arrival_s": 0.5 * n, "prompt_tokens": 64 + n, "output_tokens": 8} for n in range(8)],
    [
        {"arrival_s": n, "prompt_tokens": 64, "output_tokens": 8, "session_id": n % 3, "think_s": 0.5, "priority": n}
        | {"prefix_id": "a", "prefix_tokens": 16, "adapter": "x"}
        for n in range(6)
    ],
    [{"TIMESTAMP": f"2023-11-16 18:17:{n:02}.9799600", "ContextTokens": 374, "GeneratedTokens": 44} for n in range(6)],
    [{"timestamp": 1000 * n, "input_length": 1200, "output_length": 52, "hash_ids": [0, 1, n]} for n in range(6)],
    [
        {"chat_id": n, "parent_chat_id": -1, "timestamp": 61.1 + n, "input_length": 40, "output_length": 5}
        | {"type": "text", "turn": 1, "hash_ids": [1, 2, n]}
        for n in range(6)
    ],
    [
        {"Timestamp": 5 * n, "Model": "ChatGPT", "Request tokens": 472, "Response tokens": 18, "Total tokens": 490}
        for n in range(6)
    ],
    [
        {"timestamp": f"2024-05-10T1{n}:00:00.{9 - n}{zone}", "prompt_tokens": 9, "output_tokens": 3}
        for n, zone in enumerate(("Z", "+02:00", "-0400", "Z", "+00:00"))
    ],
    [
        {"timestamp": time, "prompt_tokens": 9, "output_tokens": 3}
        for time in ("2026-02-28 23:59:59", "2026-03-01 00:00")
    ],
    [{"timestamp": 1_700_000_000_000 + n * 7 % 5, "prompt_tokens": 9, "output_tokens": 3} for n in range(6)],
    [{"arrival_timestamp": 0.1 * n, "prompt_size": 100, "token_size": 10} for n in range(6)],
    [{"arrived_at": 0.1 * n, "num_prefill_tokens": 100, "num_decode_tokens": 10} for n in range(6)],
    [{"arrival_time_ns": 10**8 * n, "input_toks": 100, "output_toks": 10} for n in range(6)],
    [{"timestamp": 1_700_000_000.5 + n, "usage": {"prompt_tokens": 9, "completion_tokens": 3}} for n in range(6)],
    [{"input_len": 100, "output_len": 10} for n in range(6)],
)
_DOCUMENTS: Final[Sequence[Any]] = (
    {"input_lens": [3, 4, 5], "output_lens": [1, 2, 3], "start_times": [0.5, 0.1, 1.5], "ttfts": [0.1, 0.1, 0.1]},
    {
        "benchmarks": [
            {
                "requests": {
                    "successful": [
                        {"request_start_time": 1.5 + n, "prompt_tokens": 8, "output_tokens": 4} for n in range(4)
                    ],
                    "errored": [{"request_start_time": 1.0}],
                    "incomplete": [],
                }
            }
        ]
    },
    [
        {"id": "a", "conversations": [{"from": "human", "value": "hello"}, {"from": "gpt", "value": "hello again"}] * 2}
        for _ in range(3)
    ],
    {"requests": [{"arrival_s": 0.5 * n, "prompt_tokens": 64, "output_tokens": 8} for n in range(4)]},
)
_MEASURED: Final[Sequence[Sequence[Row]]] = (
    [
        {"gemm_dtype": "bfloat16", "m": 2**m, "n": 2**n, "k": 4096, "latency": 0.011 * 2 ** max(0, m + n - 18)}
        for m in range(4, 12)
        for n in range(8, 12)
    ],
    [
        {"op_name": "all_gather", "nccl_dtype": "half", "num_gpus": 8, "message_size": 1024 * 2**n, "latency": 0.01}
        for n in range(12)
    ],
    [
        {"dtype": "bf16", "kv_dtype": "fp8", "batch_size": 4, "kv_len": 1024, "latency_us": 20, "mfu": 0.1}
        for _ in range(4)
    ],
    [
        {"layer": layer, "tokens": 8, "time_us": 20}
        for layer in ("qkv_proj", "down_proj", "layernorm", "act_fn", "embedding")
    ],
    [
        {"layer_name": layer, "input": 8, "kv_cache": 0, "tp_size": 1, "latency(ns)": 20_000}
        for layer in ("attn", "qkv_proj", "layernorm")
    ],
    [{"prefill_chunk": 64, "kv_prefill": 32, "n_decode": 0, "kv_decode": 0, "time_us": 20} for _ in range(3)],
)


def as_csv(rng: Random, rows: Sequence[Any]) -> bytes:
    """Return rows as CSV; some have cells too many or too few, or another delimiter."""
    rows = [row for row in rows if isinstance(row, dict)]
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    table = io.StringIO()
    writer = csv.writer(table, delimiter=rng.choice([",", ",", ",", ";", "\t"]))
    writer.writerow(names)
    for row in rows:
        cells = [_text(row.get(name)) for name in names]
        writer.writerow(cells if rng.random() < 0.95 else cells[:-1] if rng.random() < 0.5 else [*cells, "more"])
    return table.getvalue().encode("utf-8", "surrogatepass")


def _text(cell: Any) -> str:
    """A cell of CSV; of an integer that Python does not write, as many digits as it does not read either."""
    try:
        return "" if cell is None else str(cell)
    except ValueError:
        return "9" * 5_000


def as_parquet(rng: Random, rows: Sequence[Any]) -> bytes:
    """Return rows as Parquet, columns of any type that their values have; two in five are damaged or nested deep."""
    import polars

    rows = [row for row in rows if isinstance(row, dict)]
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    columns: dict[str, Any] = {}
    for name in names:
        cells = [_shallow(row.get(name)) for row in rows]
        try:
            columns[name] = polars.Series(name, cells, strict=False)
        except Exception:  # noqa: BLE001 - whatever no column can hold is text
            columns[name] = polars.Series(name, [ascii(cell)[:100] for cell in cells])
    file = io.BytesIO()
    try:
        polars.DataFrame(columns).write_parquet(file)
    except BaseException:  # noqa: BLE001 - Polars panics by an exception of its own
        return b"PAR1"
    content = file.getvalue()
    damage = rng.random()
    if damage < 0.02:
        return raw.nested(rng.choice([10, 200, 3_000, 100_000]))
    if damage < 0.2:
        return raw.claimed(rng, content)
    return raw.mutated(rng, content) if damage < 0.4 else content


def _shallow(cell: Any) -> Any:
    """A cell, as text where it is nested: on deep columns Polars overflows its stack, which no caller can catch."""
    inner = cell.values() if isinstance(cell, dict) else cell if isinstance(cell, list) else ()
    return ascii(cell)[:100] if any(isinstance(one, dict | list) for one in inner) else cell


def _table(rng: Random, rows: Sequence[Any], *forms: str) -> tuple[str, bytes]:
    """Return the name and the content of a file of rows."""
    form = rng.choice(forms)
    if form == "parquet":
        return "table.parquet", as_parquet(rng, rows)
    if form == "lines":
        content = as_lines(rows)
    elif form == "json":
        content = as_json(rows)
    else:
        content = as_csv(rng, rows)
    if rng.random() < 0.2:
        content = raw.mutated(rng, content)
    name = {"lines": "table.jsonl", "json": "table.json"}.get(form, "table.csv")
    if rng.random() < 0.1 and "packed" in forms:
        return f"{name}.gz", raw.packed(rng, content)
    return name, content


_BOMBS: Final = (
    (b"arrival_s,prompt_tokens,output_tokens\n", b"0,10,5\n", b"x"),
    (b"arrival_s,prompt_tokens,output_tokens\n0,1", b"0" * 64, b",1\n"),
    (b"[", b'{"arrival_s":0},', b"{}]"),
    (b"[", b"[" * 64, b"]"),
    (b'{"requests": [', b" " * 64, b"]}"),
)


def requests() -> Maker:
    """Traces of requests, in the columns of each known source, and results of load clients."""
    corpus, documents = Corpus([list(rows) for rows in _REQUESTS]), Corpus(_DOCUMENTS)

    def make(rng: Random) -> Input:
        if rng.random() < 0.01:
            name, content = "table.csv.gz", raw.bomb(*rng.choice(_BOMBS), size=2**24)
        elif rng.random() < 0.3:
            suffix, content = written(rng, documents.draw(rng), ".json", ".jsonl")
            name = f"document{suffix}"
        else:
            tree = corpus.draw(rng)
            name, content = _table(
                rng, tree if isinstance(tree, list) else [], "csv", "lines", "json", "parquet", "packed"
            )
        return Input(verb="requests", arguments=(name,), files={name: content})

    return make


_LOG: Final = b"""# nccl-tests version 2.17
# Collective test starting: all_gather_perf
# nThread 1 nGpus 2 minBytes 1024 maxBytes 2048
#  Rank  0 Group  0 Pid  1 on   node1 device  0 [0x07] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  1 on   node1 device  1 [0x0a] NVIDIA H100 80GB HBM3
NCCL version 2.27.3+cuda12.9
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024            64     float    none      -1     8.90    0.12    0.06       0     8.80    0.12    0.06
        2048           128     float    none      -1     9.10    0.23    0.11       0     9.00    0.23    0.11
# Avg bus bandwidth    : 0.09
"""


def measurements() -> Maker:
    """Tables of measured operators: of Sightline and of others, and logs of nccl-tests."""
    sizes = [{"m": 2**m, "n": 1024, "k": k} for m in range(4, 12) for k in (1024, 2048, 4096)]
    asked = [{"task": "operator", "operator": "matmul", "dtype": "bf16", **size} for size in sizes]
    device = {"devices": 1, "device": {"name": "a100-sxm-80gb"}}
    own = [
        {"source": "measured", "time_s": 1e-4, "scenario": {"cluster": device, "workload": workload}}
        for workload in asked
    ]
    with (EXAMPLES / "tables" / "matmuls-a100.csv").open(encoding="utf-8", newline="") as lines:
        example = list(csv.DictReader(lines))
    corpus = Corpus([*(list(rows) for rows in _MEASURED), example, own])

    def make(rng: Random) -> Input:
        if rng.random() < 0.1:
            name, content = "all_gather.log", raw.mutated(rng, _LOG)
        else:
            tree = corpus.draw(rng)
            name, content = _table(rng, tree if isinstance(tree, list) else [], "csv", "csv", "json", "parquet")
        if rng.random() < 0.1:
            arguments = ("calibrate", "--from", name, "--device", "h100-sxm-80gb", "--json")
            return Input(verb="command", arguments=arguments, files={name: content})
        return Input(verb="tables", arguments=(name, "a100-sxm-80gb"), files={name: content})

    return make


_LINES = 60
"""Of a published table."""


def published() -> Maker:
    """Tables of published results; without the folder of data sets, those of the catalog's columns alone."""
    from sightline import catalog

    stated = {name: catalog.entry("published", name) for name in catalog.names("published")}
    files = {
        name: entry["csv"]["files"] for name, entry in stated.items() if "csv" in entry and not entry.get("locked")
    }
    data = Path(os.environ.get("SIGHTLINE_DATA") or ROOT.parent / "shared" / "data")
    texts = {name: _beginning(data / file) for name, file in files.items() if (data / file).is_file()}
    texts = texts or {next(iter(files)): b"model,devices,iteration_time_s\ngpt,8,1.5\n"}
    parsed = {name: list(csv.DictReader(io.StringIO(text.decode()))) for name, text in texts.items()}

    def make(rng: Random) -> Input:
        name = rng.choice(sorted(texts))
        damaged = rng.random() < 0.3
        content = raw.mutated(rng, texts[name]) if damaged else as_csv(rng, _wrong_rows(rng, parsed[name]))
        return Input(verb="suite", arguments=(name, "data"), files={f"data/{files[name]}": content})

    return make


def _wrong_rows(rng: Random, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows with another value in a few cells."""
    changed = [dict(row) for row in rows]
    for _ in range(rng.choice([1, 2, 5, 20])):
        row, name = rng.choice(changed), rng.choice(list(rows[0]))
        row[name] = rng.choice([values.scalar(rng), rng.choice(rows)[name], ""])
        if rng.random() < 0.05:
            for one in changed:
                one.pop(name, None)
    return changed


def _beginning(path: Path) -> bytes:
    return b"".join(path.read_bytes().splitlines(keepends=True)[:_LINES])
