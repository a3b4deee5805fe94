"""Keys and passwords are found in what states them, and hidden."""

import pytest

from sightline.runs.credentials import Credentials, of_command, of_request, without_credentials


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("vllm serve m --api-key s3cret --port 1", "vllm serve m --api-key *** --port 1"),
        ("serve --hf-token=s3cret", "serve --hf-token=***"),
        ("env HF_TOKEN='s3cret' serve", "env HF_TOKEN='***' serve"),
        ("--api-key-env NAME --max-num-batched-tokens 8192", "--api-key-env NAME --max-num-batched-tokens 8192"),
    ],
)
def test_credentials_of_commands_are_hidden(command, kept):
    assert of_command([command]).hide(command) == kept
    words = command.split()
    assert " ".join(map(of_command(words).hide, words)) == kept


def test_a_key_is_hidden_with_and_without_its_scheme():
    known = of_request({"Authorization": "Bearer s3cret"}, "http://me:pa%20ss@host")
    said = "Bearer s3cret, s3cret, pa%20ss, pa ss, bWU6cGEgc3M="
    assert known.hide(said) == ", ".join(["***"] * 5)


def test_a_credential_within_another_leaves_nothing_of_it():
    assert Credentials(frozenset({"abc", "abcdef"})).hide("abcdef abc") == "*** ***"


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://me:secret@host:8000/base?key=secret", "https://host:8000/base"),
        ("http://localhost:8000", "http://localhost:8000"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_urls_are_kept_without_credentials(url, kept):
    assert without_credentials(url) == kept
