"""JSON documents with requests in them: results of load clients, and conversations."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sightline.catalog.yaml12 import plain_reason
from sightline.errors import InputError
from sightline.loading.traces.shapes import NEEDED, TIME, Shape, recognized
from sightline.loading.traces.tables import Block, opened
from sightline.quantities import counted

OnRemark = Callable[[str], None]
CHARACTERS: Final = 4
"""Of a token of English text, roughly (OpenAI's help, "What are tokens and how to count them?")."""
LARGEST: Final = 10**9
"""Bytes of a document, unpacked."""
SIZES: Final = {name: (name,) for name in NEEDED}
CLIENT: Final = "a vllm bench serve result"
GUIDELLM: Final = "a guidellm result"
SHAREGPT: Final = "ShareGPT conversations"


def document_of(path: Path) -> Any:
    """Return what a JSON file holds, or None for one that is a table of lines."""
    with opened(path) as file:
        top = file.read(4096).decode("utf-8-sig", "replace").lstrip()[:1]
        if top not in ("{", "["):
            return None
        file.seek(0)
        begun = iter(lambda: file.readline(LARGEST), b"")
        row = _row(next(filter(bytes.strip, begun), b"")) if top == "{" else {}
        if row and not row.keys() & {"input_lens", "benchmarks", "requests", "conversations"}:
            return None
        file.seek(0)
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise InputError(
            f"{path} is larger than {LARGEST / 1000000000.0:g} GB; use JSON lines, which are read in blocks"
        )
    text = content.decode("utf-8-sig")
    try:
        return [json.loads(line) for line in text.splitlines()] if "conversations" in row else json.loads(text)
    except RecursionError:
        raise InputError(f"{path} is not valid JSON: nested too deeply") from None
    except ValueError as error:
        lines = sum("input_lens" in _row(line) for line in text.splitlines()) if row else 0
        said = f"has {lines} results; allowed: one" if lines > 1 else f"is not valid JSON: {plain_reason(error)}"
        raise InputError(f"{path} {said}") from None


def _row(line: bytes | str) -> dict[str, Any]:
    """The object that a line holds; nothing where it holds none, such as the first of an object over several lines."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def table_of(document: Any, place: str, on_remark: OnRemark) -> tuple[Shape, Block]:
    """Return the requests of a document as a table and its shape; raise `InputError` where none are in it."""
    if isinstance(document, Mapping):
        if "input_lens" in document:
            return _of_vllm(document, place, on_remark)
        if "benchmarks" in document:
            return _of_guidellm(document, place, on_remark)
        document = document.get("requests", [])
    if isinstance(document, Sequence) and document and all(isinstance(row, Mapping) for row in document):
        if "conversations" in document[0]:
            return _of_sharegpt(document, place, on_remark)
        names = tuple(dict.fromkeys(name for row in document for name in row))
        return recognized(names, place), _rows(document, names)
    raise InputError(
        f"{place} is not a known requests file; allowed: a list of objects with arrival_s, prompt_tokens and "
        f"output_tokens, {CLIENT}, {GUIDELLM}, or {SHAREGPT}"
    )


def _rows(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Block:
    return Block(columns={name: [row.get(name) for row in rows] for name in names}, first_line=1)


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows by their times; clients write them in another order."""
    return sorted(rows, key=lambda row: row["start"] if isinstance(row["start"], int | float) else 0.0)


def _of_vllm(document: Mapping[str, Any], place: str, on_remark: OnRemark) -> tuple[Shape, Block]:
    """What `vllm bench serve --save-result --save-detailed` wrote; other clients write the same keys."""
    prompts, outputs = document["input_lens"], document.get("output_lens")
    starts = document.get("start_times")
    if not isinstance(prompts, list) or not isinstance(outputs, list) or len(outputs) != len(prompts):
        raise InputError(f"{place} lacks output_lens, one per entry of input_lens; run the client with --save-detailed")
    if not isinstance(starts, list) or len(starts) != len(prompts):
        on_remark(f"{place} has no start_times; requests arrive all at once, or as set in workload.arrival")
        starts = [0.0] * len(prompts)
    rows = [
        {"start": s, "prompt_tokens": p, "output_tokens": o} for s, p, o in zip(starts, prompts, outputs, strict=True)
    ]
    return _timed(CLIENT), _rows(_in_order(rows), ("start", *SIZES))


def _timed(name: str) -> Shape:
    return Shape(name=name, columns={TIME: ("start",), **SIZES})


def _of_guidellm(document: Mapping[str, Any], place: str, on_remark: OnRemark) -> tuple[Shape, Block]:
    """What `guidellm benchmark` wrote as JSON, of one benchmark."""
    runs = document["benchmarks"]
    if not isinstance(runs, list) or len(runs) != 1:
        count = len(runs) if isinstance(runs, list) else 0
        raise InputError(f"{place} has {count} benchmarks; allowed: one")
    run = runs[0] if isinstance(runs[0], Mapping) else {}
    requests = run.get("requests") or {}
    if not isinstance(requests, Mapping) or not all(map(_is_table, requests.values())):
        raise InputError(f"{place} has an unknown structure; {GUIDELLM} has a list of requests for each outcome")
    done = requests.get("successful") or []
    others = sum(len(rows or ()) for kind, rows in requests.items() if kind != "successful")
    if others:
        on_remark(f"{place}: skipped {counted(others, 'request')} that failed or did not finish")
    rows = [
        {
            "start": row.get("request_start_time", row.get("start_time")),
            "prompt_tokens": row.get("prompt_tokens"),
            "output_tokens": row.get("output_tokens"),
        }
        for row in done
    ]
    return _timed(GUIDELLM), _rows(_in_order(rows), ("start", *SIZES))


def _of_sharegpt(document: Sequence[Mapping[str, Any]], place: str, on_remark: OnRemark) -> tuple[Shape, Block]:
    """Conversations of texts: every answer with what was said before it is a turn."""
    wrong = next((number for number, talk in enumerate(document, 1) if not _is_table(talk.get("conversations"))), 0)
    if wrong:
        raise InputError(f"{place} conversation {wrong} is not a list of messages; {SHAREGPT} must be lists of objects")
    on_remark(f"lengths of {SHAREGPT} are estimated at {CHARACTERS} characters per token, typical for English")
    rows = [row for number, talk in enumerate(document) for row in _turns(talk, number)]
    return Shape(name=SHAREGPT, columns=SIZES, optional={"session_id": ("session_id",)}), _rows(
        rows, (*SIZES, "session_id")
    )


def _is_table(rows: Any) -> bool:
    """Whether it is a list of objects, or nothing."""
    return rows is None or (isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows))


def _turns(talk: Mapping[str, Any], number: int) -> Iterator[dict[str, int]]:
    said = 0
    for message in talk.get("conversations") or ():
        tokens = -(-len(str(message.get("value", ""))) // CHARACTERS)
        if message.get("from") in ("gpt", "assistant", "chatgpt", "bing", "bard") and said and tokens:
            yield {"prompt_tokens": said, "output_tokens": tokens, "session_id": number}
        said += tokens
