"""The script that draws charts into their places and gives each as a file, for reports and the local page."""

import json
from functools import cache
from importlib import resources

CHARTS = "charts.js"
"""Name of the module of the script in this folder."""


@cache
def charts_script() -> str:
    """Return the module: it exports ``draw``, ``save`` and ``NARROW``, and asks nothing of the network."""
    from sightline.report.charts.numbers import LOOKS

    text = (resources.files("sightline.report") / CHARTS).read_text(encoding="utf-8")
    return text.replace("/* LOOKS */ []", json.dumps(sorted(LOOKS)))


def document_script() -> str:
    """Return the script of a report, which stands inside of it."""
    return f"{charts_script()}draw(document);\n"


def vega_script() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, made by vl-convert in a second."""
    import vl_convert

    from sightline.report.charts.rendering import vega_lite_version

    made: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=vega_lite_version())
    return made
