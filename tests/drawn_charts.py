"""Charts as they are drawn, and their colors as they are seen."""

import xml.etree.ElementTree as ET

import numpy as np

from sightline.report.charts import drawing

SEEN_BY = {
    "everybody": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""How linear RGB is seen (Machado, Oliveira and Fernandes, 2009, severity 1)."""


def drawn(spec):
    return ET.fromstring(drawing.draw(spec, "chart.svg"))


def texts(spec):
    return ["".join(element.itertext()) for element in drawn(spec).iter("{http://www.w3.org/2000/svg}text")]


def lab(color, matrix):
    """A color's place in CIELAB as it is seen."""
    channels = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(matrix) @ linear, 0, 1)
    to_xyz = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    x, y, z = np.cbrt(np.array(to_xyz) @ seen / (0.95047, 1.0, 1.08883))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])
