"""Answers as pictures: Vega-Lite specifications, drawn as SVG, PNG or HTML; and Chrome traces."""
