"""JSON documents with requests in them: results of load clients, and conversations."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

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
        of_lines = {*row} & {"conversations", "hash_id_scope"} or (
            (client := client_of(row)) is not None and client.is_log
        )
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
        document = document.get("requests", [])
    if isinstance(document, Sequence) and document and all(isinstance(row, Mapping) for row in document):
        if "conversations" in document[0]:
            return _of_sharegpt(document, place, on_remark)
        if {"hash_id_scope", "requests"} <= document[0].keys():
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


def _of_weka(document: Sequence[Mapping[str, Any]], place: str, on_remark: OnRemark) -> tuple[Shape, Block]:
    """Conversations of agents (WEKA): a turn is sent some time after the answer before it."""
    if wrong := next((number for number, talk in enumerate(document, 1) if not _is_table(talk["requests"])), 0):
        raise InputError(f"{place} conversation {wrong} has no list of requests; {WEKA} must be lists of objects")
    rows = [row for number, talk in enumerate(document) for row in _agent_turns(talk["requests"] or (), number)]
    if others := sum(len(talk["requests"] or ()) for talk in document) - len(rows):
        on_remark(f"{place}: skipped {counted(others, 'request')} that agents hand to others")
    shape = Shape(name=WEKA, columns=SIZES, optional={name: (name,) for name in ("session_id", "think_s")})
    return shape, _rows(rows, (*SIZES, "session_id", "think_s"))


def _agent_turns(requests: Sequence[Mapping[str, Any]], number: int) -> Iterator[dict[str, Any]]:
    """The turns of one conversation; what an agent hands to others, which answer beside it, is not among them."""
    answered_s = 0.0
    for request in requests:
        begin_s, seconds = request.get("t"), request.get("api_time", 0.0)
        if "in" not in request or not isinstance(begin_s, int | float) or not isinstance(seconds, int | float):
            continue
        yield {
            "prompt_tokens": request["in"],
            "output_tokens": request.get("out"),
            "session_id": number,
            "think_s": max(0.0, begin_s - answered_s),
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
