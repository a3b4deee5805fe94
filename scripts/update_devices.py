"""Write ``docs/devices``: the page of calibrated device families and its data tables, from the calibration files.

With ``--data DIR``, the folder of the public tables, the pictures are drawn anew: what the shipped constants predict
over what was measured. Without it the page keeps the pictures that are there.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import device_pages
from generated import csv_text, markdown_table, replace_part

from sightline.catalog import entry, names

DOCS = Path(__file__).parents[1] / "docs" / "devices"
MOST_POINTS = 320
"""Points of a page's picture, so that it stays small."""


MOST_LISTED = 20
"""Devices of a family that are listed by name."""


class Measured(NamedTuple):
    """Tables of a family and the device they were measured on; ``--only`` of `sightline calibrate` where one is mixed."""

    device: str
    files: Sequence[tuple[str, Mapping[str, str]]]


NCCL = "aiconfigurator/nccl_all_systems.csv"
TABLES: Mapping[str, Measured] = {
    "a100-sxm": Measured(
        "a100-sxm-80gb",
        [
            ("aiconfigurator/gemm_a100_sxm_trtllm-1.0.0.csv", {}),
            ("aiconfigurator/attn_context_a100_sxm_trtllm-1.0.0.csv", {}),
            ("aiconfigurator/attn_generation_a100_sxm_trtllm-1.0.0.csv", {}),
            (NCCL, {"device": "NVIDIA A100-SXM4-80GB", "library": "nccl 2.27.3"}),
        ],
    ),
    "a40": Measured("a40", [("vidur/a40_Llama-2-7b-hf_mlp.csv", {}), ("vidur/a40_Llama-2-70b-hf_mlp.csv", {})]),
    "a800-sxm": Measured(
        "a800-sxm-80gb",
        [
            ("frontier/a800_meta-llama_Llama-2-7b-hf_mlp.csv", {}),
            ("frontier/a800_meta-llama_Llama-2-7b-hf_attention.csv", {}),
        ],
    ),
    "b200-sxm": Measured(
        "b200-sxm-180gb",
        [
            ("aiconfigurator/gemm_b200_sxm_trtllm-1.2.0rc5_bf16_fp8.csv", {}),
            ("aiconfigurator/attn_context_b200_sxm_vllm-0.19.0.csv", {}),
            ("aiconfigurator/attn_generation_b200_sxm_vllm-0.19.0.csv", {}),
            (NCCL, {"device": "NVIDIA B200", "library": "nccl 2.29.2"}),
        ],
    ),
    "b300-sxm": Measured("b300-sxm", [(NCCL, {"device": "NVIDIA B300 SXM6 AC", "library": "nccl 2.29.2"})]),
    "gb200": Measured("gb200", [(NCCL, {"device": "NVIDIA GB200", "library": "nccl 2.29.2"})]),
    "gb300": Measured("gb300", [(NCCL, {"device": "NVIDIA GB300", "library": "nccl 2.29.2"})]),
    "l40s": Measured("l40s-48gb", [(NCCL, {"device": "NVIDIA L40S", "library": "nccl 2.27.3"})]),
    "rtx-pro-6000": Measured(
        "rtx-pro-6000-server",
        [(NCCL, {"device": "NVIDIA RTX PRO 6000 Blackwell Server Edition", "library": "nccl 2.29.2"})],
    ),
    "h100-sxm": Measured(
        "h100-sxm-80gb",
        [
            ("aiconfigurator/gemm_h100_sxm_trtllm-1.2.0rc5.csv", {}),
            ("aiconfigurator/attn_context_h100_sxm_vllm-0.14.0.csv", {}),
            ("aiconfigurator/attn_generation_h100_sxm_vllm-0.14.0.csv", {}),
            (NCCL, {"device": "NVIDIA H100 80GB HBM3", "library": "nccl 2.29.2"}),
        ],
    ),
    "h20": Measured(
        "h20",
        [
            ("infersim/gemm_h20_data.csv", {}),
            ("infersim/grouped_gemm_decode_h20_data.csv", {}),
            ("infersim/grouped_gemm_prefill_h20_data.csv", {}),
        ],
    ),
    "h200-sxm": Measured(
        "h200-sxm-141gb",
        [
            ("aiconfigurator/gemm_h200_sxm_trtllm-1.2.0rc5.csv", {}),
            (NCCL, {"device": "NVIDIA H200", "library": "nccl 2.29.2"}),
        ],
    ),
    "h800-sxm": Measured(
        "h800-sxm-80gb",
        [
            ("frontier/h800_llama2_7b_dense_example_linear_op_kernel_only.csv", {}),
            ("infersim/gemm_h800_data.csv", {}),
            ("infersim/grouped_gemm_decode_h800_data.csv", {}),
            ("infersim/grouped_gemm_prefill_h800_data.csv", {}),
        ],
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page and its tables, and with data the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the public tables: draw the pictures too")
    data = parser.parse_args(arguments).data
    (DOCS / "images").mkdir(parents=True, exist_ok=True)
    if data is not None:
        for family, measured in TABLES.items():
            draw_residuals(family, measured, data)
    for name, text in tables().items():
        (DOCS / name).write_text(text, encoding="utf-8")
    replace_part(DOCS / "index.md", "families", family_table())
    replace_part(DOCS / "index.md", "pictures", pictures())


def families() -> list[str]:
    """Return the calibrated families; those of nobody's measurements come last."""
    found = sorted({name.partition("/")[0] for name in names("calibrations")})
    return sorted(found, key=lambda family: (family in {"generic", "pcie"}, family))


def parts(family: str) -> list[str]:
    """Return the parts that a family was calibrated in."""
    return [name.partition("/")[2] for name in names("calibrations") if name.startswith(f"{family}/")]


def tables() -> dict[str, str]:
    """Return the text of each data table, by file name."""
    written = {
        "sources.csv": (device_pages.SOURCES, device_pages.sources),
        "errors.csv": (device_pages.ERRORS, device_pages.errors),
        "constants.csv": (device_pages.CONSTANTS, device_pages.constants),
    }
    named = [
        (family, part, entry("calibrations", f"{family}/{part}")) for family in families() for part in parts(family)
    ]
    return {
        file: csv_text(headings, (row for family, part, content in named for row in rows(family, part, content)))
        for file, (headings, rows) in written.items()
    }


def family_table() -> str:
    """Return a line for each family: its devices, those that borrow from it, and the parts that are calibrated."""
    rows = []
    for family in families():
        own = [name for name in names("devices") if entry("devices", name).get("calibration") == family]
        kin = [name for name in names("devices") if family in entry("devices", name).get("relatives", ())]
        calibrated = ", ".join(part.replace("_", " ") for part in parts(family))
        shown = _listed(own) if len(own) <= MOST_LISTED else f"{len(own)} devices that nobody measured"
        rows.append([f"`{family}`", shown or "-", str(len(kin) or "-"), calibrated])
    return markdown_table(["family", "devices", "borrowed by", "calibrated parts"], rows)


def pictures() -> str:
    """Return the pictures of the families that have one."""
    drawn = [family for family in families() if (DOCS / "images" / f"{family}.svg").exists()]
    return "\n\n".join(f"![{family}: predicted over measured time](images/{family}.svg)" for family in drawn)


def draw_residuals(family: str, measured: Measured, data: Path) -> None:
    """Draw what the shipped constants predict over what was measured."""
    from sightline.calibration.from_tables import read_tables
    from sightline.calibration.parts import PARTS
    from sightline.charts.accuracy import KernelFit, residual_chart
    from sightline.charts.rendering import draw

    panels: dict[str, list[KernelFit]] = {}
    for file, only in measured.files:
        found = read_tables([data / file], measured.device, only=only)
        for part, rows in found.rows.items():
            for p in PARTS[part].points(rows, found.cluster):
                title = ", ".join(dict.fromkeys((part, p.kernel))).replace("_", " ")
                panels.setdefault(title, []).append(
                    KernelFit(title=title, size=p.size, unit=p.unit, ratio=p.predicted / p.measured)
                )
    drawn = residual_chart(
        f"{family}: predicted over measured time",
        [KernelFit.joined(same) for same in panels.values()],
        most_points=MOST_POINTS // len(panels),
    )
    path = DOCS / "images" / f"{family}.svg"
    path.write_text(str(draw(drawn, str(path))), encoding="utf-8")


def _listed(listed: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in listed)


if __name__ == "__main__":
    main()
