"""Devices as nvidia-smi, rocm-smi, PyTorch and JAX name them."""

import pytest

from sightline import catalog
from sightline.loading.clusters import read_cluster

NAMES = {
    "Trillium": "tpu-v6e",
    "ironwood": "tpu-v7x",
    "NVIDIA B200": "b200-sxm-180gb",
    "NVIDIA B300 SXM6 AC": "b300-sxm",
    "NVIDIA GB200": "gb200",
    "NVIDIA GH200 480GB": "gh200-96gb",
    "NVIDIA GH200 144G HBM3e": "gh200",
    "NVIDIA H200": "h200-sxm-141gb",
    "NVIDIA H200 NVL": "h200-nvl-141gb",
    "NVIDIA H100 80GB HBM3": "h100-sxm-80gb",
    "NVIDIA H100 PCIe": "h100-pcie-80gb",
    "NVIDIA H100 NVL": "h100-nvl-94gb",
    "NVIDIA H800": "h800-sxm-80gb",
    "NVIDIA H20": "h20",
    "NVIDIA A100-SXM4-80GB": "a100-sxm-80gb",
    "NVIDIA A100-SXM4-40GB": "a100-sxm-40gb",
    "A100-SXM4-40GB": "a100-sxm-40gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "NVIDIA A800-SXM4-80GB": "a800-sxm-80gb",
    "NVIDIA A10": "a10",
    "NVIDIA A10G": "a10g",
    "NVIDIA A30": "a30",
    "NVIDIA A40": "a40",
    "NVIDIA L4": "l4",
    "NVIDIA L40": "l40",
    "NVIDIA L40S": "l40s-48gb",
    "Tesla T4": "t4",
    "Tesla V100-SXM2-16GB": "v100-sxm2-16gb",
    "Tesla V100-SXM2-32GB": "v100-sxm2-32gb",
    "Tesla V100-PCIE-16GB": "v100-pcie-16gb",
    "NVIDIA RTX A6000": "rtx-a6000",
    "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000-server",
    "NVIDIA GeForce RTX 5090": "rtx-5090",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA GeForce RTX 4080 SUPER": "rtx-4080-super",
    "NVIDIA GeForce RTX 3090": "rtx-3090",
    "NVIDIA GeForce RTX 3090 Ti": "rtx-3090-ti",
    "NVIDIA GeForce RTX 2080 Ti": "rtx-2080-ti",
    "AMD Instinct MI300X": "mi300x",
    "AMD Instinct MI300X OAM": "mi300x",
    "AMD Instinct MI250X / MI250": "mi250x",
    "HL-225": "gaudi2",
    "TPU v4": "tpu-v4",
    "TPU v5 lite": "tpu-v5e",
    "TPU v6 lite": "tpu-v6e",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_device_is_known_by_the_name_that_its_driver_prints(name):
    assert catalog.name_of("devices", name) == NAMES[name]
    assert read_cluster(f"8x {name}").device.name == NAMES[name]


def test_short_names_still_mean_the_usual_device():
    short = {"v100": "v100-sxm2-32gb", "h100": "h100-sxm-80gb", "4090": "rtx-4090"}
    assert {name: catalog.name_of("devices", name) for name in short} == short


@pytest.mark.parametrize("name", ["NVIDIA GeForce RTX 4060 Ti", "Tesla P100-PCIE-16GB"])
def test_a_name_of_several_devices_or_of_none_is_not_guessed(name):
    assert catalog.name_of("devices", name) not in catalog.names("devices")
