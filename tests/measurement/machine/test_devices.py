import pytest

from sightline.measurement.machine import catalog_name, hardware_at_hand

MIB = 2**20


@pytest.mark.parametrize(
    ("driver", "mib", "name"),
    [
        ("NVIDIA H200", 143771, "h200-sxm-141gb"),
        ("NVIDIA H200 NVL", 143771, "h200-nvl-141gb"),
        ("NVIDIA H100 80GB HBM3", 81559, "h100-sxm-80gb"),
        ("NVIDIA H100 PCIe", 81559, "h100-pcie-80gb"),
        ("NVIDIA A100-SXM4-80GB", 81920, "a100-sxm-80gb"),
        ("NVIDIA A100-SXM4-40GB", 40960, "a100-sxm-40gb"),
        ("NVIDIA A100 80GB PCIe", 81920, "a100-pcie-80gb"),
        ("NVIDIA GeForce RTX 3090", 24576, "rtx-3090"),
        ("NVIDIA GeForce RTX 3090 Ti", 24576, "rtx-3090-ti"),
        ("NVIDIA RTX 6000 Ada Generation", 49140, "rtx-6000-ada"),
        ("NVIDIA B200", 183359, "b200-sxm-180gb"),
        ("NVIDIA L40S", 46068, "l40s-48gb"),
    ],
)
def test_a_driver_s_name_and_memory_give_the_catalog_s_name(driver, mib, name):
    assert catalog_name({"name": driver, "memory_bytes": mib * MIB}) == name


def test_a_gpu_that_the_catalog_lacks_has_no_name_there():
    assert catalog_name({"name": "NVIDIA H100 80GB HBM3", "memory_bytes": 20e9}) is None
    assert catalog_name({"name": "Imaginary 1", "memory_bytes": 80e9}) is None


def test_without_gpus_the_processor_is_at_hand():
    found = hardware_at_hand()
    if found.is_processor:
        assert found.cluster(1) == "1x this-machine"
        assert 1 <= found.count <= 2
    else:
        assert found.count >= 1
