"""YAML is read by the 1.2 core schema, and whatever is not YAML ends in a sentence."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.catalog.yaml12 import MAX_DEPTH, parse, parse_all
from sightline.errors import InputError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2e12", 2e12),
        ("1.5E-3", 1.5e-3),
        (".5", 0.5),
        ("1.", 1.0),
        ("-.inf", -math.inf),
        ("0777", 777),
        ("0x1F", 31),
        ("0o17", 15),
        ("+12", 12),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2024-01-31", "2024-01-31"),
        ("off", "off"),
        ("yes", "yes"),
        ("True", True),
        ("false", False),
        ("~", None),
        ("null", None),
        ("'2e12'", "2e12"),
        ("80 GiB", "80 GiB"),
    ],
)
def test_scalars_follow_the_core_schema(text, value):
    read = parse(f"key: {text}")["key"]
    assert read == value
    assert type(read) is type(value)


def test_nan_is_a_number():
    assert math.isnan(parse("key: .nan")["key"])


def test_merge_keys_are_ordinary_keys():
    assert parse("<<: {a: 1}") == {"<<": {"a": 1}}


def test_aliases_repeat_a_value():
    assert parse("a: &x [1, 2]\nb: *x") == {"a": [1, 2], "b": [1, 2]}


def test_empty_text_is_no_document():
    assert parse("") is None
    assert parse("# only a remark\n") is None


def test_many_documents():
    assert parse_all("a: 1\n---\nb: 2\n") == [{"a": 1}, {"b": 2}]
    with pytest.raises(InputError, match="found 2"):
        parse("a: 1\n---\nb: 2\n")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\na: 2", "line 2, column 1: key 'a'"),
        ("{[1]: 2}", "a key must be a plain word"),
        ("a: b: c", "line 1, column 5"),
        ("a: [1, 2", "expected ',' or ']'"),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
        ("a: !!timestamp 2020-01-01", "could not determine a constructor"),
        ("!!int abc", "invalid literal"),
        ("!!int [1]", "a plain value"),
        ("!!map [a]", "a mapping"),
        ("!!seq {a: 1}", "a list"),
        ("&a [*a]", "recursive"),
        ("9" * 5000, "digits"),
        ("\x00", "control characters"),
        ("\ud800", "surrogates"),
        ("[" * 100_000, f"nested more than {MAX_DEPTH}"),
        ("- " * 100_000, f"nested more than {MAX_DEPTH}"),
        ("? " * 3000, f"nested more than {MAX_DEPTH}"),
    ],
)
def test_what_is_not_yaml_is_a_sentence(text, sentence):
    with pytest.raises(InputError) as error:
        parse_all(text)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@given(st.text(alphabet=st.sampled_from(" \n\t-?:,[]{}#&*!|>'\"%@`abn01.e+~<="), max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        documents = parse_all(text)
    except InputError as error:
        documents = list(error.problems)
    assert all(d is None or isinstance(d, str | int | float | list | dict) for d in documents)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(alphabet="abc xyz-:", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN)
def test_json_is_yaml(value):
    import json

    text = json.dumps(value).replace("Infinity", ".inf")
    assert parse(text) == value


@pytest.mark.parametrize("path", [r"D:\users\new", r"D:\data"])
def test_a_path_with_backslashes_in_double_quotes_is_told_how_to_be_written(path):
    with pytest.raises(InputError, match="use single quotes or /"):
        parse(f'name: "{path}"')
    assert parse(f"name: '{path}'") == {"name": path}
