"""Charts as they are drawn, and their colors as they are seen."""

import re
import xml.etree.ElementTree as ET
from typing import NamedTuple

import numpy as np

from sightline.charts import rendering

SEEN_BY = {
    "everybody": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""How linear RGB is seen (Machado, Oliveira and Fernandes, 2009, severity 1)."""


_SCALED = re.compile(r"datum\['(?P<column>[^']+)'\](?: / (?P<divisor>\S+))?")


def as_drawn(rows, view):
    """The rows of a view with the columns that it makes of those in SI units."""
    made = [(one["as"], *_SCALED.fullmatch(one["calculate"]).groups()) for one in view.get("transform", ())]
    return [
        row | {name: row[key] / float(by) if by else row[key] for name, key, by in made if row.get(key) is not None}
        for row in rows
    ]


def drawn(spec):
    return ET.fromstring(rendering.draw(spec, "chart.svg"))


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


SVG = "{http://www.w3.org/2000/svg}"
_NARROW, _BROAD = frozenset("iljtfrI.,:;'|!()[] /"), frozenset("mwMW%@")


class Box(NamedTuple):
    """Where a text lies, in pixels of the picture."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other):
        """Whether two boxes share more than a pixel either way."""
        across = min(self.right, other.right) - max(self.left, other.left)
        return across > 1 and min(self.bottom, other.bottom) - max(self.top, other.top) > 1


def width_of(text, size):
    """About as wide as Helvetica sets a text."""
    return size * sum(0.28 if c in _NARROW else 0.86 if c in _BROAD else 0.68 if c.isupper() else 0.54 for c in text)


def boxes(root):
    """The boxes of all texts that stand upright or along a vertical axis; not those along a slope."""
    return [box for element, matrix in _placed(root, np.eye(3)) for box in _boxes_of(element, matrix)]


def _placed(element, matrix):
    """Texts with the transformation of everything that they are in."""
    matrix = matrix @ _matrix(element.get("transform", ""))
    if element.tag == f"{SVG}text":
        yield element, matrix
    for child in element:
        yield from _placed(child, matrix)


def _matrix(transform):
    found = np.eye(3)
    for kind, inner in re.findall(r"(\w+)\(([^)]*)\)", transform):
        numbers = [float(one) for one in re.split(r"[ ,]+", inner.strip())]
        one = np.eye(3)
        if kind == "translate":
            one[:2, 2] = (*numbers, 0.0)[:2]
        elif kind == "rotate":
            angle = np.radians(numbers[0])
            one[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        found = found @ one
    return found


def _boxes_of(element, matrix):
    if element.get("opacity") == "0":
        return
    size = float(element.get("font-size", "11").removesuffix("px"))
    lines = [("".join(line.itertext()), float(line.get("dy", 0))) for line in element] or [
        ("".join(element.itertext()), 0.0)
    ]
    below = 0.0
    for text, step in lines:
        below += step
        wide = width_of(text, size)
        start = {"middle": -wide / 2, "end": -wide}.get(element.get("text-anchor"), 0.0)
        corners = [
            (matrix @ (x, y, 1.0))[:2]
            for x in (start, start + wide)
            for y in (below - 0.72 * size, below + 0.18 * size)
        ]
        angle = np.degrees(np.arctan2(matrix[1, 0], matrix[0, 0])) % 90
        if text.strip() and min(angle, 90 - angle) < 1:
            (left, top), (right, bottom) = np.min(corners, axis=0), np.max(corners, axis=0)
            yield Box(text, left, top, right, bottom)


def contrast(one, other):
    """The contrast of two colors (WCAG 2.1)."""
    low, high = sorted(map(_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def _luminance(color):
    channels = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))
