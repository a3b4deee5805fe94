"""Files that are traces, cut traces, and files that are none."""

import gzip
import json
import re
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kineto import Composed

from sightline.errors import InputError
from sightline.explanation.traced.traced_step import explain_trace
from sightline.traces import decoding, files
from sightline.traces.files import read_trace, trace_files


def composed(kernels=20):
    trace = Composed(rank=3, world_size=8)
    trace.step(1, 0.0, kernels * 10.0)
    for place in range(kernels):
        trace.kernel("sm90_xmma_gemm_bf16", place * 10.0 + 5, 5.0)
    return trace


def text_of(trace, **how):
    return json.dumps(trace.document(), **how).encode()


@pytest.mark.parametrize("how", [{}, {"indent": 2}, {"separators": (",", ":")}])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_trace_is_read_however_it_is_written(tmp_path, how, pack):
    place = tmp_path / "trace"
    place.write_bytes(pack(text_of(composed(), **how)))
    trace = read_trace(place)
    assert len(trace.events) == 61
    assert (trace.rank, trace.world_size, trace.device_name) == (3, 8, "NVIDIA H100 80GB HBM3")
    assert not trace.warnings


def test_a_bare_list_of_events_is_a_trace(tmp_path):
    place = tmp_path / "trace.json"
    place.write_text(json.dumps(composed().events))
    assert len(read_trace(place).events) == 61


def test_what_stands_behind_the_events_is_read_too(tmp_path):
    document = composed().document()
    info = document.pop("distributedInfo")
    place = tmp_path / "trace.json"
    place.write_text(json.dumps({**document, "distributedInfo": info}))
    assert read_trace(place).rank == 3


@pytest.mark.parametrize("size", [1000, 4096, 100_000])
def test_chunks_of_any_size_give_the_same_events(tmp_path, monkeypatch, size):
    place = tmp_path / "trace.json"
    place.write_bytes(text_of(composed(200), indent=1))
    whole = read_trace(place).events
    monkeypatch.setattr(files._Source.more, "__defaults__", (size,))
    parts = read_trace(place).events
    assert (parts.start == whole.start).all()
    assert (parts.end == whole.end).all()


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_cut_trace_is_read_up_to_the_cut_with_a_warning(tmp_path, pack):
    place = tmp_path / "trace.json.gz"
    packed = pack(text_of(composed(2000), indent=1))
    place.write_bytes(packed[: len(packed) // 2])
    trace = read_trace(place)
    assert 1000 < len(trace.events) < 5000
    assert "ends in the middle" in trace.warnings[0]
    assert "ends in the middle" in explain_trace([place]).warnings[0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is not JSON"),
        (b"hello", "is not JSON"),
        (b"\x89PNG\r\n\x1a\n", "is not JSON"),
        (b'{"model": "llama-2-7b"}', "no list 'traceEvents'"),
        (b'{"traceEvents": []}', "holds no events"),
        (b'{"traceEvents": [', "ends before its first event"),
        (b'{"traceEvents": [{"ph": "X", "cat": "net", "name": "a", "ts": 1, "dur": 1}]}', "none of PyTorch's profiler"),
        (b'{"traceEvents": {"a": 1}}', "no list 'traceEvents'"),
        (b"[1, 2, 3]", "something other than events"),
        (b"\x1f\x8bgarbage", "is not JSON|cannot be read"),
    ],
)
def test_what_is_no_trace_is_refused_in_a_sentence(tmp_path, content, said):
    place = tmp_path / "file.json"
    place.write_bytes(content)
    with pytest.raises(InputError) as refused:
        read_trace(place)
    assert re.search(said, str(refused.value))
    assert str(place) in str(refused.value)


def test_values_of_other_types_do_not_hurt_the_rest(tmp_path):
    trace = composed()
    trace.event("kernel", "odd", "soon", None)
    trace.event("kernel", {"a": 1}, 1, 1)
    trace.event("kernel", "negative", 5, -5)
    trace.events += [{"ph": "X", "cat": 5}, {"ph": None}, {"args": []}, {"ph": "M", "name": "process_name"}]
    place = trace.write(tmp_path)
    assert len(read_trace(place).events) == 61
    place.write_bytes(place.read_bytes().replace(b"process_name", b"\xcd"))
    assert len(read_trace(place).events) == 61


def test_enormous_traces_are_refused_before_they_fill_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LARGEST", 10_000)
    place = tmp_path / "bomb.json.gz"
    place.write_bytes(gzip.compress(b'{"traceEvents": [' + b" " * 10**6))
    with pytest.raises(InputError, match="profile fewer steps"):
        read_trace(place)


def test_a_folder_stands_for_the_traces_in_it(tmp_path):
    for name in ("a.pt.trace.json", "b.pt.trace.json.gz", "config.json", "notes.txt"):
        (tmp_path / name).write_text("{}")
    assert [one.name for one in trace_files([tmp_path])] == ["a.pt.trace.json", "b.pt.trace.json.gz"]


def test_missing_files_and_empty_folders_are_named(tmp_path):
    with pytest.raises(InputError, match="holds no trace"):
        trace_files([tmp_path])
    with pytest.raises(InputError, match=r"no file|not exist"):
        trace_files([tmp_path / "gone.json"])


SOMETIMES = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SOMETIMES
@given(st.binary(max_size=300), st.sampled_from((b"", b"{", b'{"traceEvents": [', b"\x1f\x8b\x08")))
def test_random_bytes_give_a_sentence(tmp_path, content, before):
    place = tmp_path / "file.json"
    place.write_bytes(before + content)
    with pytest.raises(InputError):
        explain_trace([place])


@SOMETIMES
@given(st.data(), st.booleans())
def test_cut_and_damaged_traces_are_read_or_refused(tmp_path, data, pack):
    whole = text_of(composed(), indent=1)
    content = bytearray(gzip.compress(whole) if pack else whole)
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del content[place:]
    file = tmp_path / "file.json"
    file.write_bytes(content)
    with suppress(InputError):
        assert explain_trace([file]).whole_s > 0


def test_a_damaged_trace_is_read_up_to_the_damage(tmp_path):
    whole = text_of(composed(2000), indent=1)
    middle = whole.index(b'"ph"', len(whole) // 2)
    place = tmp_path / "trace.json"
    place.write_bytes(whole[:middle] + b"\0" + whole[middle:])
    trace = read_trace(place)
    assert 2800 < len(trace.events) < 3200
    assert "ends in the middle" in trace.warnings[0]


def test_events_inside_of_arguments_are_no_edges():
    one = b'{"ph": "X", "args": {"list": [{"a": 1}, {"b": 2}]}}'
    found, rest = decoding.split(one + b", " + one + b', {"ph"', is_last=False)
    assert len(found) == 2
    assert rest.lstrip().startswith(b'{"ph"')


def test_events_of_unknown_categories_are_said_and_arrows_are_not(tmp_path):
    document = composed().document()
    event = {"ph": "X", "name": "q", "pid": 0, "tid": 0, "ts": 1.0, "dur": 1.0}
    document["traceEvents"] += [{**event, "cat": cat} for cat in ("quux_kernel", "overhead", "ac2g")]
    place = tmp_path / "trace.json"
    place.write_text(json.dumps(document))
    trace = read_trace(place)
    assert not trace.is_cut
    (warning,) = trace.warnings
    assert "'quux_kernel'" in warning
    assert "overhead" not in warning
