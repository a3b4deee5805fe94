"""Devices against the published tables of accelerators, where the data folder is there."""

import csv
import os
from pathlib import Path

import pytest

from sightline.catalog import names
from sightline.loading.clusters import read_cluster

FOLDER = Path(os.environ.get("SIGHTLINE_DATA", ""))
DEVICES = {
    "NVIDIA GB300 SXM": "gb300",
    "NVIDIA GB200 SXM": "gb200",
    "AMD MI355X": "mi355x",
    "Google TPU v7x": "tpu-v7x",
    "NVIDIA B300 SXM": "b300-sxm",
    "NVIDIA B200 SXM": "b200-sxm-180gb",
    "Intel Gaudi3": "gaudi3",
    "AMD MI325X": "mi325x",
    "AMD MI300X": "mi300x",
    "NVIDIA H200 SXM": "h200-sxm-141gb",
    "NVIDIA H100 SXM": "h100-sxm-80gb",
    "NVIDIA GH200 SXM": "gh200",
    "Google TPU v6e": "tpu-v6e",
    "NVIDIA H100 PCIe": "h100-pcie-80gb",
    "AWS Trainium2 / Ultra": "trainium2",
    "Google TPU v5p": "tpu-v5p",
    "Intel Gaudi2": "gaudi2",
    "AMD MI250X": "mi250x",
    "NVIDIA L40S": "l40s-48gb",
    "AMD MI250": "mi250",
    "NVIDIA A100 SXM": "a100-sxm-80gb",
    "NVIDIA A100 PCIe": "a100-pcie-80gb",
    "Google TPU v4": "tpu-v4",
    "Google TPU v5e": "tpu-v5e",
    "AMD MI455X": "mi455x",
    "NVIDIA Rubin SXM": "rubin-sxm",
    "Huawei Ascend 950DT": "ascend-950dt",
    "GeForce RTX 4090": "rtx-4090",
    "GeForce RTX 3090": "rtx-3090",
    "A40": "a40",
    "A100 SXM 40GB": "a100-sxm-40gb",
    "H20": "h20",
    "L4": "l4",
    "A30": "a30",
    "RTX PRO 6000 Server": "rtx-pro-6000-server",
    "Intel Arc Pro B60": "arc-pro-b60",
    "V100 SXM2 32GB": "v100-sxm2-32gb",
    "V100 PCIe 16GB": "v100-pcie-16gb",
    "A800 SXM 80GB": "a800-sxm-80gb",
    "H800 SXM 80GB": "h800-sxm-80gb",
    "GeForce RTX 5090": "rtx-5090",
    "A10": "a10",
    "T4": "t4",
}
"""Rows of the tables by the name the catalog gives them; other rows add single figures of these."""

OTHERWISE = {
    ("rtx-3090", "fp16_tensor"): "accumulated in fp32, as training does: half of what this table prints",
    ("b300-sxm", "tdp_w"): "1,100 W as ai-dynamo/aiconfigurator has it",
}
"""Figures that differ from the table's, and why."""


def rows():
    for name in ("hw_catalog.csv", "hw_catalog_unverified.csv"):
        with (FOLDER / name).open(encoding="utf-8", newline="") as lines:
            yield from (row for row in csv.DictReader(lines) if row["accelerator"] in DEVICES)


def test_every_row_has_a_device():
    assert set(DEVICES.values()) | {"mi210"} <= set(names("devices"))


@pytest.mark.skipif(not (FOLDER / "hw_catalog.csv").is_file(), reason="no data folder")
def test_devices_have_the_published_figures():
    differences = []
    for row in rows():
        device = read_cluster(f"1x {DEVICES[row['accelerator']]}").device
        ours = {
            "bf16_tensor": device.peak_flops.get("bf16", 0) / 1e12,
            "fp16_tensor": device.peak_flops.get("fp16", 0) / 1e12,
            "fp8_tensor": device.peak_flops.get("fp8", 0) / 1e12,
            "mem_bw_GBps": device.memory_bandwidth / 1e9,
            "tdp_w": device.tdp_w,
        }
        for column, value in ours.items():
            printed = row[column].replace("N/A", "")
            if printed and value and (device.name, column) not in OTHERWISE and abs(value / float(printed) - 1) > 0.03:
                differences.append(f"{device.name} {column}: {value:g}, printed {printed}")
    assert not differences


@pytest.mark.parametrize(
    ("name", "device", "host", "memory_gib", "peers"),
    [
        ("a800", "a800-sxm-80gb", "epyc-7402", 512, True),
        ("rtx-4090", "rtx-4090", "xeon-gold-6230", 512, False),
        ("rtx-3090", "rtx-3090", "epyc-7302", 128, False),
        ("rtx-3090-nvlink", "rtx-3090-nvlink", "epyc-7302", 128, True),
    ],
)
def test_the_nodes_of_the_study_are_as_its_table_has_them(name, device, host, memory_gib, peers):
    cluster = read_cluster(f"study-2311.03687-{name}")
    assert (cluster.devices, cluster.per_node, cluster.device.name) == (8, 8, device)
    assert (cluster.host.name, cluster.host.memory_bytes / 2**30) == (host, memory_gib)
    assert cluster.intra_node.peer_to_peer is peers
