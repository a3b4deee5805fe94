"""Names by which people call entries: understood where only one can be meant, or with a remark."""

import pytest

from sightline import catalog


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("4090", "rtx-4090"),
        ("rtx4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("3080", "rtx-3080"),
        ("b200", "b200-sxm-180gb"),
        ("L40S", "l40s-48gb"),
        ("mi300", "mi300x"),
        ("v5p", "tpu-v5p"),
        ("a100-pcie-80gb", "a100-pcie-80gb"),
        ("A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("h100-sxm5", "h100-sxm-80gb"),
    ],
)
def test_a_device_that_can_only_be_one_is_understood(written: str, name: str) -> None:
    assert catalog.name_of("devices", written) == name
    assert catalog.said_of("devices", written) == ""


@pytest.mark.parametrize(
    ("written", "name", "other"),
    [
        ("h100", "h100-sxm-80gb", "h100-pcie-80gb"),
        ("H200", "h200-sxm-141gb", "h200-nvl-141gb"),
        ("a100-80gb", "a100-sxm-80gb", "a100-pcie-80gb"),
    ],
)
def test_the_usual_form_of_a_device_is_taken_with_a_remark(written: str, name: str, other: str) -> None:
    assert catalog.name_of("devices", written) == name
    said = catalog.said_of("devices", written)
    assert said.startswith(f"{written} is read as {name}; ")
    assert other in said


@pytest.mark.parametrize("written", ["a100", "a100-sxm", "4060-ti", "b20", "h10", "m1-max", "x", "", "tpu-v5", "gaudi"])
def test_what_may_be_several_things_or_none_is_left_alone(written: str) -> None:
    assert catalog.name_of("devices", written) == written
    assert catalog.said_of("devices", written) == ""


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Meta-Llama-3-8B", "llama-3-8b"),
        ("llama3-8b", "llama-3-8b"),
        ("Llama-2-7b-chat-hf", "llama-2-7b"),
        ("Mistral-Nemo-Instruct-2407", "mistral-nemo-2407"),
        ("Qwen3-235B-A22B-Instruct-2507", "qwen3-235b-a22b"),
        ("phi1.5", "phi-1.5"),
    ],
)
def test_models_by_their_repositories_and_in_one_word(written: str, name: str) -> None:
    assert catalog.name_of("models", written) == name


@pytest.mark.parametrize("written", ["qwen-27b", "llama-38b", "llama", "my-llama-2-7b", "instruct"])
def test_other_numbers_are_other_models(written: str) -> None:
    assert catalog.name_of("models", written) == written


@pytest.mark.parametrize("kind", ["devices", "models", "networks", "hosts", "clusters"])
def test_every_entry_keeps_its_own_name(kind: str) -> None:
    assert [name for name in catalog.names(kind) if catalog.name_of(kind, name) != name] == []
    assert [name for name in catalog.names(kind) if catalog.name_of(kind, name.upper()).lower() != name.lower()] == []
