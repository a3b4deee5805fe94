"""Write ``docs/devices``: a page per calibrated device family, from the calibration files.

With ``--data DIR``, the folder of the public tables, the pictures are drawn anew: what the shipped constants predict
over what was measured. Without it the pages keep the pictures that are there.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from device_pages import part_page

from sightline.catalog import entry, names

DOCS = Path(__file__).parents[1] / "docs" / "devices"
MOST_POINTS = 320
"""Points of a page's picture, so that it stays small."""


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
    """Write the pages, and with data the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder of the public tables: draw the pictures too")
    data = parser.parse_args(arguments).data
    (DOCS / "images").mkdir(parents=True, exist_ok=True)
    for family in families():
        if data is not None and family in TABLES:
            draw_residuals(family, TABLES[family], data)
        (DOCS / f"{family}.md").write_text(page(family), encoding="utf-8")
    (DOCS / "index.md").write_text(index(), encoding="utf-8")


def families() -> list[str]:
    """Return the calibrated families; those of nobody's measurements come last."""
    found = sorted({name.partition("/")[0] for name in names("calibrations")})
    return sorted(found, key=lambda family: (family in {"generic", "pcie"}, family))


def parts(family: str) -> list[str]:
    """Return the parts that a family was calibrated in."""
    return [name.partition("/")[2] for name in names("calibrations") if name.startswith(f"{family}/")]


def page(family: str) -> str:
    """Return a family's page."""
    own = [name for name in names("devices") if entry("devices", name).get("calibration") == family]
    kin = [name for name in names("devices") if family in entry("devices", name).get("relatives", ())]
    lines = [f"# {family}", "Written by `scripts/update_devices.py` from the calibration files of the catalog."]
    if own:
        lines.append(f"Devices with these constants: {_listed(own)}.")
    if kin:
        lines.append(f"Devices that borrow the parts that their own family lacks: {_listed(kin)}.")
    if (DOCS / "images" / f"{family}.svg").exists():
        lines.append(f"![Predicted over measured time of {family} by the size of the operator](images/{family}.svg)")
    return (
        "\n\n".join([*lines, *(part_page(part, entry("calibrations", f"{family}/{part}")) for part in parts(family))])
        + "\n"
    )


def index() -> str:
    """Return the page that lists all families."""
    lines = [
        f"- [{family}]({family}.md): {', '.join(p.replace('_', ' ') for p in parts(family))}" for family in families()
    ]
    return (
        "# Calibrated devices\n\nEach page lists the measured operators of a device family, its constants and the errors that remain. [Calibration](../calibration.md) says how to add your own.\n\n"
        + "\n".join(lines)
        + "\n"
    )


def draw_residuals(family: str, measured: Measured, data: Path) -> None:
    """Draw what the shipped constants predict over what was measured."""
    from sightline.calibration.from_tables import read_tables
    from sightline.calibration.parts import PARTS
    from sightline.report.charts.accuracy import Panel, residual_chart
    from sightline.report.charts.rendering import draw

    panels: dict[str, list[Panel]] = {}
    for file, only in measured.files:
        found = read_tables([data / file], measured.device, only=only)
        for part, rows in found.rows.items():
            for p in PARTS[part].points(rows, found.cluster):
                title = ", ".join(dict.fromkeys((part, p.kernel))).replace("_", " ")
                panels.setdefault(title, []).append(
                    Panel(title=title, size=p.size, unit=p.unit, ratio=p.predicted / p.measured)
                )
    drawn = residual_chart(
        f"{family}: predicted over measured time",
        [Panel.joined(same) for same in panels.values()],
        most_points=MOST_POINTS // len(panels),
    )
    path = DOCS / "images" / f"{family}.svg"
    path.write_text(str(draw(drawn, str(path))), encoding="utf-8")


def _listed(listed: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in listed)


if __name__ == "__main__":
    main()
