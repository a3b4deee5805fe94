"""JSON documents with requests in them: results of load clients, and conversations."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from sightline.catalog.yaml12 import plain_reason
from sightline.errors import InputError
from sightline.loading.sources import numbered
from sightline.loading.traces.clients import Client, client_of, clients, failures, result_of
from sightline.loading.traces.shapes import MEASURED, NEEDED, TIME, Shape, recognized
from sightline.loading.traces.tables import Block, opened
from sightline.quantities import counted, listed

OnRemark = Callable[[str], None]
CHARACTERS: Final = 4
"""Of a token of English text, roughly (OpenAI's help, "What are tokens and how to count them?")."""
LARGEST: Final = 10**9
"""Bytes of a document, unpacked."""
SIZES: Final = {name: (name,) for name in NEEDED}
SHAREGPT: Final = "ShareGPT conversations"
_AGENTS_OF: Final = {"block_size", "hash_id_scope"}
"""Keys of such a conversation, of which older ones have the first alone."""
WEKA: Final = "WEKA conversations of agents, which all begin at once"


def document_of(path: Path) -> Any:
    """Return what a JSON file holds, also of ``FILE#2``, or None for one that is a table of lines."""
    path, _ = numbered(path)
    with opened(path) as file:
        top = file.read(4096).decode("utf-8-sig", "replace").lstrip()[:1]
        if top not in ("{", "["):
            return None
        file.seek(0)
        begun = iter(lambda: file.readline(LARGEST), b"")
        row = _row(next(filter(bytes.strip, begun), b"")) if top == "{" else {}
        if row and not row.keys() & {"requests", "conversations"} and client_of(row) is None:
            return None
        file.seek(0)
        content = file.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise InputError(
            f"{path} is larger than {LARGEST / 1000000000.0:g} GB; use JSON lines, which are read in blocks"
        )
    text = content.decode("utf-8-sig")
    try:
        of_lines = {*row} & {"conversations", *_AGENTS_OF} or ((client := client_of(row)) is not None and client.is_log)
        return [json.loads(line) for line in text.splitlines() if line.strip()] if of_lines else json.loads(text)
    except RecursionError:
        raise InputError(f"{path} is not valid JSON: nested too deeply") from None
    except ValueError as error:
        lines = [_row(line) for line in text.splitlines() if row and line.strip()]
        if len(lines) > 1 and all(client_of(line) for line in lines):
            return lines
        raise InputError(f"{path} is not valid JSON: {plain_reason(error)}") from None


def _row(line: bytes | str) -> dict[str, Any]:
    """The object that a line holds; nothing where it holds none, such as the first of an object over several lines."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def table_of(document: Any, place: str, on_remark: OnRemark) -> tuple[Shape, Block]:
    """Return the requests of a document as a table and its shape; raise `InputError` where none are in it."""
    if (client := client_of(document)) is not None:
        return _of_client(client, document, place, on_remark)
    if isinstance(document, Mapping):
        document = [document] if _AGENTS_OF & document.keys() else document.get("requests", [])
    if isinstance(document, Sequence) and document and all(isinstance(row, Mapping) for row in document):
        if "conversations" in document[0]:
            return _of_sharegpt(document, place, on_remark)
        if _AGENTS_OF & document[0].keys() and "requests" in document[0]:
            return _of_weka(document, place, on_remark)
        names = tuple(dict.fromkeys(name for row in document for name in row))
        return recognized(names, place), _rows(document, names)
    raise InputError(
        f"{place} is not a known requests file; allowed: a list of objects with arrival_s, prompt_tokens and "
        f"output_tokens, {SHAREGPT}, {', '.join(client.name for client in clients() if client.columns)}, or {WEKA}"
    )


def _rows(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Block:
    return Block(columns={name: [row.get(name) for row in rows] for name in names}, first_line=1)


def _of_client(client: Client, document: Any, place: str, on_remark: OnRemark) -> tuple[Shape, Block]:
    """The requests of a load client's result."""
    result = result_of(client, document, place)
    if result.rows is None:
        raise InputError(f"{place} is {client.name} without its requests; run the client so that it saves each of them")
    for reason, count in result.left_out.items():
        on_remark(f"{place}: skipped {counted(count, 'request')} {reason}")
    if failed := failures({"completed": len(result.rows), **result.figures}):
        on_remark(f"{place}: {failed}; the load has only the others")
    if result.unread:
        on_remark(f"{place} says how requests were sent by what is not read: {listed(result.unread)}")
    if (completed := result.figures.get("completed", 0)) > len(result.rows):
        on_remark(f"{place} keeps {len(result.rows)} of {completed:g} requests; the load has only those")
    names = tuple(dict.fromkeys(name for row in result.rows for name in row))
    timed = {TIME: (TIME,)} if TIME in names else {}
    if not timed and not result.arrival:
        on_remark(f"{place} has no times; requests arrive all at once, or as set in workload.arrival")
    # Recorded times are how requests were sent, unless they waited for answers.
    arrival = result.arrival if not timed or "concurrency" in result.arrival else {}
    shape = Shape(name=client.name, columns={**timed, **SIZES}, optional=MEASURED, arrival=arrival)
    return shape, _rows(result.rows, tuple(dict.fromkeys((*names, *shape.columns))))


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


_AGENTS: Final = ("session_id", "transcript", "think_s", "prefix_id", "prefix_tokens")


def _of_weka(document: Sequence[Mapping[str, Any]], place: str, on_remark: OnRemark) -> tuple[Shape, Block]:
    """Conversations of agents (WEKA's kv-cache-tester 1.1; aiperf's reader): calls follow the answer before them."""
    rows: list[dict[str, Any]] = []
    for number, talk in enumerate(document, 1):
        if not _is_table(talk["requests"]):
            raise InputError(f"{place} conversation {number} has no list of requests; {WEKA} must be lists of objects")
        rows += _agent_turns(talk["requests"] or (), str(number), talk)
    if any(row[TIME] for row in rows):
        on_remark(f"{place}: agents that others start begin at their recorded times, and nobody waits for them")
    rows.sort(key=lambda row: row[TIME])
    shape = Shape(name=WEKA, columns=SIZES, optional={name: (name,) for name in (TIME, *_AGENTS)})
    return shape, _rows(rows, (*SIZES, TIME, *_AGENTS))


def _agent_turns(
    requests: Sequence[Mapping[str, Any]], session: str, talk: Mapping[str, Any], arrival_s: float = 0.0
) -> Iterator[dict[str, Any]]:
    """The calls of one agent, and of those that it starts, which answer beside it.

    A call goes on with the transcript whose last full block is among its own, else begins one, as after a compaction.
    The prompt of the system and its tools is that of the whole conversation.
    """
    answered_s, transcripts, begun = np.inf, dict[int, int](), 0
    shared = sum(int(talk.get(name) or 0) for name in ("tool_tokens", "system_tokens"))
    for place, request in enumerate(requests):
        begin_s, seconds = request.get("t"), request.get("api_time") or 0.0
        if isinstance(begin_s, int | float) and _is_table(inner := request.get("requests")) and inner:
            yield from _agent_turns(inner, f"{session}.{place}", talk, max(begin_s, 1e-9))
        if "in" not in request or not isinstance(begin_s, int | float) or not isinstance(seconds, int | float):
            continue
        chain = (request.get("hash_ids") or ())[: request["in"] // (talk.get("block_size") or 64)]
        known = next((transcripts[block] for block in reversed(chain) if block in transcripts), None)
        if known is None:
            known, begun = begun, begun + bool(chain)
        if chain:
            transcripts[chain[-1]] = known
        yield {
            "prompt_tokens": request["in"],
            "output_tokens": request.get("out"),
            TIME: arrival_s,
            "session_id": session,
            "transcript": known,
            "think_s": request.get("think_time") or max(0.0, begin_s - answered_s),
            "prefix_id": talk.get("id", session.partition(".")[0]),
            "prefix_tokens": shared if request["in"] > shared else 0,
        }
        answered_s = begin_s + seconds


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
