"""Colours and type shared by all charts."""

from collections.abc import Sequence
from typing import Any

PHASE_COLOURS = {
    "forward": "#5b8fc7",
    "backward": "#2b5d94",
    "recompute": "#9a6fb0",
    "optimizer": "#4f9d69",
    "communication_exposed": "#d9534f",
    "pipeline_bubble": "#e0b040",
    "prefill": "#5b8fc7",
    "decode": "#e08a3c",
    "communication": "#d9534f",
    "transfer": "#9a6fb0",
    "host": "#8c8c8c",
}
MEMORY_COLOURS = {
    "weights": "#2b5d94",
    "gradients": "#5b8fc7",
    "optimizer": "#4f9d69",
    "activations": "#e08a3c",
    "kv_cache": "#9a6fb0",
    "buffers": "#e0b040",
    "framework": "#8c8c8c",
}
INK, FAINT, LINE, WARNING = "#222222", "#666666", "#ececec", "#c0392b"

ROW_HEIGHT = 22


def configure(chart: Any, title: str = "", lines: Sequence[str] = ()) -> dict[str, Any]:
    """Return the chart as a specification with the house's title, axes and fonts."""
    if title:
        chart = chart.properties(title={"text": title, "subtitle": list(lines), "anchor": "start", "offset": 18})
    spec: dict[str, Any] = (
        chart.properties(background="white", padding={"left": 16, "right": 16, "top": 14, "bottom": 12})
        .configure(font="Helvetica, Arial, sans-serif")
        .configure_title(fontSize=18, color=INK, subtitleFontSize=12, subtitleColor=FAINT, subtitleLineHeight=17)
        .configure_axis(
            labelColor=INK,
            titleColor=FAINT,
            labelFontSize=12,
            titleFontSize=11,
            titleFontWeight="normal",
            domain=False,
            ticks=False,
            gridColor=LINE,
            labelLimit=360,
        )
        .configure_legend(labelFontSize=12, titleFontSize=12, symbolType="square", labelColor=INK, labelLimit=320)
        .configure_view(stroke=None)
        .configure_concat(spacing=26)
        .to_dict()
    )
    return spec
