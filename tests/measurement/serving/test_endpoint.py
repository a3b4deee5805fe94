"""What a server is found to take, before a load is sent: its model, token ids or text, and who may ask."""

import socket

import pytest

pytest.importorskip("aiohttp")

from measurement.serving.serving_load import load, send

from sightline.errors import InputError, WorkError
from sightline.measurement.serving.load import Words

KEY = {"Authorization": "Bearer a-secret"}


def test_without_the_servers_counts_chunks_are_counted():
    records, sent, _ = send(load(4), "no-counts")
    assert all((record["server_prompt_tokens"], record["server_output_tokens"]) == (-1, 9) for record in records)
    assert not sent.request_format.counts


@pytest.mark.parametrize("behavior", ["text-only", "strict"])
def test_a_server_that_takes_only_text_gets_text(behavior, monkeypatch, tmp_path):
    words = Words([f"w{i}" for i in range(50)])
    monkeypatch.setattr("sightline.measurement.serving.load.words_of", lambda _: words)
    records, sent, server = send(load(4), behavior, tokenizer=tmp_path)
    # The server adds a first token, which the prompts then lack.
    assert sent.request_format.overhead == 1
    assert all(record["server_prompt_tokens"] == 20 for record in records)
    assert ("ignore_eos" in server.seen[-1]) == (behavior == "text-only")


def test_without_a_tokenizer_such_a_server_is_refused():
    with pytest.raises(InputError, match="does not accept prompts of token ids"):
        send(load(4), "text-only")


def test_chats_are_asked_of_another_address(monkeypatch, tmp_path):
    words = Words([f"w{i}" for i in range(50)])
    monkeypatch.setattr("sightline.measurement.serving.load.words_of", lambda _: words)
    records, _, server = send(load(4), chat=True, tokenizer=tmp_path)
    assert not any(record["failure"] for record in records)
    assert "messages" in server.seen[-1]


@pytest.mark.parametrize(
    ("variable", "advice"),
    [("SERVER_KEY", "SERVER_KEY"), ("", "no key was sent")],
)
def test_a_key_that_is_refused_is_named_by_its_variable(variable, advice):
    with pytest.raises(WorkError, match=f"returns no completion: HTTP 401: bad key .*; .*{advice}") as found:
        send(load(2), "forbidden", headers=KEY, key_variable=variable)
    assert "a-sec" not in str(found.value)


def test_a_server_that_is_busy_at_first_is_asked_again(monkeypatch):
    monkeypatch.setattr("sightline.measurement.serving.load.WAITS_S", (0.01, 0.01))
    _, sent, server = send(load(2), "busy")
    assert sent.request_format.fields["ignore_eos"]
    assert server.asked == 3 + 2 + 2
    monkeypatch.setattr("sightline.measurement.serving.load.WAITS_S", (0.01,))
    with pytest.raises(WorkError, match="returns no completion: HTTP 429: slow down"):
        send(load(2), "busy")


def test_where_nobody_listens_the_address_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(WorkError, match=f"no server answers at {url}"):
            send(load(2), url=url)
