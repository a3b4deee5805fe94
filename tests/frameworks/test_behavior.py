"""Release lines inherit behavior, state what differs, and are refused in a sentence where they say what nobody knows."""

import pytest

from sightline.catalog import index
from sightline.errors import InputError
from sightline.frameworks import read_engine, read_framework


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of further entries, known while a test runs."""
    monkeypatch.setenv("SIGHTLINE_CATALOG", str(tmp_path))
    _forget()
    yield tmp_path
    monkeypatch.undo()
    _forget()


def _forget():
    for cached in (index.names, index.entry, index._paths, read_framework, read_engine):
        cached.cache_clear()


def test_a_version_states_what_differs_from_the_one_it_inherits_from(folder):
    (folder / "frameworks").mkdir()
    (folder / "frameworks" / "mine.yaml").write_text(
        """
sharding: {gradient_reduce_bytes: {bf16: 2}}
kernels: {accumulation_traffic: 4, optimizer_traffic: 30}
memory:
  states: {weights: 2, gradients: 2, optimizer: 12}
  loss_bytes_per_logit: 6
  communication_buffer_bytes: 0
  context_bytes: 1 GB
offers: {zero_stage: [0, 1], compile: [false]}
versions:
  "1": {overlap: {gradients: true, tensor: all}}
  "2": {inherits: "1", overlap: {tensor: backward}, offers: {zero_stage: [0]}}
source: a test
"""
    )
    plain, first, second = (read_framework("mine", version) for version in ("", "1", "2"))
    assert (plain.overlap.gradients, first.overlap.gradients, second.overlap.gradients) == (False, True, True)
    assert (plain.overlap.tensor, first.overlap.tensor, second.overlap.tensor) == ("none", "all", "backward")
    assert second.offers == {"zero_stage": (0,), "compile": (False,)}
    assert second.memory == plain.memory
    assert plain.memory.context_bytes == 1e9


@pytest.mark.parametrize(("version", "inherited"), [("core-serial", "core"), ("bridge-26.06", "bridge-26.04")])
def test_lines_of_megatron_keep_what_they_do_not_state(version, inherited):
    assert read_framework("megatron", version).fusion == read_framework("megatron", inherited).fusion


def test_an_engine_takes_the_line_of_its_release():
    assert read_engine("vllm", "0.5.4").scheduling == read_engine("vllm", "0.3").scheduling
    assert read_engine("vllm", "0.9").scheduling.mixed_batches


def test_unknown_behavior_is_refused_with_the_nearest_word(folder):
    (folder / "engines").mkdir()
    entry = "memory: {memory_fraction: 0.9, context_bytes: 1 GB}\nscheduling: {mixed_batch: true}\nsource: a test\n"
    (folder / "engines" / "mine.yaml").write_text(entry)
    with pytest.raises(InputError, match=r"Scheduling has no mixed_batch.*mixed_batches"):
        read_engine("mine")
