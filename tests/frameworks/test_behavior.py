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


@pytest.mark.parametrize(("version", "inherited"), [("core-serial", "0.14"), ("0.18", "0.14")])
def test_lines_of_megatron_keep_what_they_do_not_state(version, inherited):
    assert read_framework("megatron", version).fusion == read_framework("megatron", inherited).fusion


def test_an_engine_takes_the_line_of_its_release():
    assert read_engine("vllm", "0.5.4").scheduling == read_engine("vllm", "0.3").scheduling
    assert read_engine("vllm", "0.9").scheduling.mixed_batches


MEMORY = "memory: {memory_fraction: 0.9, context_bytes: 1 GB}\n"
MISTAKES = {
    "memory: {context_bytes: 1 GB}": "memory.memory_fraction is missing",
    "kernels: {}": "memory is missing",
    "memory: {memory_fraction: 90%, context_bytes: 1 GB}": "memory.memory_fraction is '90%'",
    "memory: {memory_fraction: 0.9, context_bytes: 1 GHz}": "memory.context_bytes is '1 GHz'",
    "memory: 0.9": "memory is 0.9",
    MEMORY + "kernels: {fused: [qkv, gateup]}": "kernels.fused is 'gateup'; allowed: qkv, gate-up, norm",
    MEMORY + "kernels: {fused: qkv}": "kernels.fused is 'qkv'",
    MEMORY
    + "kernels: {stream_kernels: vectorised}": "kernels.stream_kernels is 'vectorised'; allowed: scalar, vectorized",
    MEMORY + "kernels: {fuzed: [qkv]}": "kernels.fuzed is not a known key - did you mean 'fused'?",
    MEMORY + "kernels: {grouped_heads: 8}": "kernels.grouped_heads is 8",
    MEMORY + "scheduling: {mixed_batches: 'yes'}": "scheduling.mixed_batches is 'yes'; allowed: true, false",
    MEMORY
    + "scheduling: {mixed_batch: true}": "scheduling.mixed_batch is not a known key - did you mean 'mixed_batches'?",
    MEMORY + "version: {'1': {}}": "version is not a known key - did you mean 'versions'?",
    MEMORY + "versions: {'1': {inherits: '2'}}": "versions.1.inherits is '2'; allowed: 1",
    MEMORY + "versions: [1, 2]": "versions is [1, 2]",
    MEMORY + "offers: {dtype: bf16}": "offers.dtype is 'bf16'",
}


@pytest.mark.parametrize("stated", MISTAKES)
def test_a_mistake_in_an_engines_file_is_said_under_its_key(folder, stated):
    (folder / "engines").mkdir()
    (folder / "engines" / "mine.yaml").write_text(f"{stated}\nsource: a test\n")
    with pytest.raises(InputError) as refused:
        read_engine("mine")
    assert [said for said in refused.value.problems if said.startswith(f"catalog.engines.mine.{MISTAKES[stated]}")]


def test_every_mistake_of_a_framework_is_said_at_once(folder):
    (folder / "frameworks").mkdir()
    (folder / "frameworks" / "mine.yaml").write_text("overlap: {tensor: some}\nmemory: {states: {}}\nsource: a test\n")
    with pytest.raises(InputError) as refused:
        read_framework("mine")
    said = [problem.removeprefix("catalog.frameworks.mine.") for problem in refused.value.problems]
    assert "overlap.tensor is 'some'; allowed: none, backward, all" in said
    assert "kernels is missing" in said[1]
    assert any(one.startswith("memory.states.weights is missing") for one in said)


@pytest.mark.parametrize(("kind", "read"), [("frameworks", read_framework), ("engines", read_engine)])
def test_every_release_of_the_catalog_is_read(kind, read):
    for name in index.names(kind):
        for version in ("", *(index.entry(kind, name).get("versions") or {})):
            assert read(name, str(version)).name == name


@pytest.mark.parametrize("version", ["banana", "March 2024", "release1"])
def test_an_engines_version_that_is_no_release_is_refused(version):
    with pytest.raises(InputError, match=r"allowed: 0\.2, .*, a release or a date such as 2024-06"):
        read_engine("vllm", version)


@pytest.mark.parametrize("version", ["0.6.3", "0.11", "0.5.3.post1", "1.2.0rc5", "9.9"])
def test_an_engine_takes_any_release(version):
    assert read_engine("vllm", version).version == version
