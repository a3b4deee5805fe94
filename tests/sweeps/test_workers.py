"""Words for workers, and clusters that are not there."""

import socket

import pytest

from sightline.errors import InputError
from sightline.sweeps.pools import Workers, read_workers, require_answer


@pytest.mark.parametrize(
    ("text", "workers"),
    [
        ("local", Workers(kind="local")),
        ("local:8", Workers(kind="local", count=8)),
        ("ray", Workers(kind="ray")),
        ("ray:auto", Workers(kind="ray", address="auto")),
        ("ray:10.0.0.1:6379", Workers(kind="ray", address="10.0.0.1:6379")),
        ("dask:2", Workers(kind="dask", count=2)),
        ("dask:tcp://node0:8786", Workers(kind="dask", address="tcp://node0:8786")),
    ],
)
def test_workers_are_named_as_they_are_typed(text, workers):
    assert read_workers(text) == workers
    assert str(workers) == text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("dsak", "did you mean 'dask'"),
        ("", "allowed: local, ray or dask"),
        ("local:", "allowed: local, ray or dask"),
        ("local:0", "allowed: 1 to"),
        ("local:many", "a worker count"),
    ],
)
def test_other_words_are_refused_with_what_is_allowed(text, sentence):
    with pytest.raises(InputError, match=f"--workers is '{text}'.*{sentence}"):
        read_workers(text)


@pytest.mark.parametrize("kind", ["ray", "dask"])
def test_a_cluster_that_does_not_answer_is_named_by_key_and_address(kind):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(InputError, match=f"--workers is '{kind}:{address}': "):
            require_answer(read_workers(f"{kind}:{address}"))
    with pytest.raises(InputError, match="'nowhere' is not an address"):
        require_answer(read_workers(f"{kind}:nowhere"))
