"""Pictures of answers: declarative figures that become Vega-Lite specifications, drawn as SVG, PNG or HTML."""
