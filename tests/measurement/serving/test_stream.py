"""Streams read as tokens, however the network cuts them."""

import json

from hypothesis import given
from hypothesis import strategies as st

from sightline.measurement.serving.stream import CONTRADICTED, CUT, MALFORMED, REPORTED, AnswerStream, events


def chunk(text, **keys):
    return f"data: {json.dumps({'choices': [{'text': text, **keys}]})}\n\n"


def counts(tokens, choices=()):
    usage = {"prompt_tokens": 7, "completion_tokens": tokens, "prompt_tokens_details": {"cached_tokens": 4}}
    return f"data: {json.dumps({'choices': list(choices), 'usage': usage})}\n\n"


def read(text, *, cuts=()):
    data, ends = text.encode(), [*sorted(cuts), None]
    pieces = [data[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    found = AnswerStream()
    for content, time_ns in events(pieces, range(len(pieces))):
        found.take(content, time_ns)
    found.close()
    return found


WHOLE = (
    chunk("a")
    + ": a comment\n\n"
    + chunk("b\n\nc")
    + chunk("", finish_reason="length")
    + counts(2)
    + "data: [DONE]\n\n"
)


@given(st.lists(st.integers(0, len(WHOLE)), max_size=12))
def test_pieces_may_be_cut_anywhere(cuts):
    found = read(WHOLE, cuts=cuts)
    assert (found.failure, found.tokens, "".join(found.text)) == ("", [1, 1], "ab\n\nc")
    assert (found.prompt_tokens, found.output_tokens, found.cached_tokens) == (7, 2, 4)
    assert found.times_ns == sorted(found.times_ns)


def test_an_event_comes_when_its_last_byte_does():
    data = chunk("a")
    both = data + chunk("b", finish_reason="stop")
    assert read(both, cuts=[5]).times_ns == [1, 1]
    assert read(both, cuts=[len(data)]).times_ns == [0, 1]


def test_lines_may_end_as_on_windows():
    assert read(WHOLE.replace("\n\n", "\r\n\r\n").replace("b\\n\\r\\nc", "b")).failure == ""


def test_a_running_count_says_how_many_tokens_a_chunk_has():
    text = (
        counts(3, [{"text": "abc"}])
        + counts(4, [{"text": ""}])
        + counts(6, [{"text": "ef", "finish_reason": "length"}])
    )
    assert read(text).tokens == [3, 1, 2]


def test_token_ids_say_so_too():
    found = read(chunk("ab", token_ids=[5, 6]) + chunk("", token_ids=[7], finish_reason="length"))
    assert (found.tokens, found.token_ids) == ([2, 1], [5, 6, 7])


def test_a_chat_says_its_text_elsewhere():
    deltas = [{"role": "assistant"}, {"content": "a"}, {"reasoning_content": "b"}, {}]
    parts = [f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\n" for delta in deltas]
    assert "".join(read("".join(parts) + "data: [DONE]\n\n").text) == "ab"


def test_the_counts_at_the_end_are_no_chunk():
    last = counts(1, [{"text": "", "finish_reason": "length"}])
    assert read(chunk("a") + last).tokens == [1]


def test_what_is_wrong_with_a_stream():
    assert read(chunk("a")).failure == CUT
    assert read(chunk("a") + "data: {nonsense\n\n").failure == MALFORMED
    assert read("data: [1]\n\n").failure == MALFORMED
    assert read('data: {"choices": 5}\n\n').failure == MALFORMED
    assert read('data: {"choices": [{"text": 5}]}\n\n').failure == MALFORMED
    assert read(chunk("a") + 'data: {"error": {"message": "out of memory\\nat"}}\n\n').detail == "out of memory"
    assert read('data: {"error": "dead"}\n\n').failure == REPORTED
    assert read(chunk("a") + chunk("b", finish_reason="stop") + counts(1)).failure == CONTRADICTED
    assert read(chunk("", finish_reason="stop") + counts(5)).failure == CONTRADICTED


@given(st.binary(max_size=200))
def test_nonsense_is_a_failure_and_never_an_error(data):
    found = AnswerStream()
    for content, time_ns in events([data], [1]):
        found.take(content, time_ns)
    found.close()
    assert found.failure or found.finished
