"""Files that pages name: style, script, and Vega out of the installed vl-convert, each under a name of its content."""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Final

from sightline.folders import default_place
from sightline.whole_files import write_whole

_KINDS: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "yaml": "application/yaml",
    "html": "text/html; charset=utf-8",
}
"""Media types by ending."""
VEGA, CHART_COLORS = "vega.js", "charts.css"
"""Made when first asked for, out of packages that take long to load."""
_making = threading.Lock()


def address(name: str) -> str:
    """Return the path of a file, which changes with its content so that browsers may keep it for ever."""
    return f"/static/{_version(name)}/{name}"


@cache
def _version(name: str) -> str:
    """What stands for the content of a file; modules of the script name each other, so all of them share one."""
    if name in (VEGA, CHART_COLORS):
        from importlib.metadata import version

        return "-".join(version(package) for package in ("vl-convert-python", "sightline"))
    together = sorted(other for other in _own() if other.endswith(".js")) if name.endswith(".js") else [name]
    return sha256(b"".join(_own()[one] for one in together)).hexdigest()[:16]


def content(name: str) -> bytes:
    """Return a file's bytes; raise `FileNotFoundError` for a name that pages do not use."""
    if name == VEGA:
        with _making:
            return bundle(_version(VEGA))
    if name == CHART_COLORS:
        from sightline.charts.rendering import dark_style

        return dark_style().encode()
    if name not in _own():
        raise FileNotFoundError(name)
    return _own()[name]


def media_type(name: str) -> str:
    """Return what kind of file a name stands for."""
    return _KINDS[name.rpartition(".")[2]]


@cache
def _own() -> Mapping[str, bytes]:
    """All files of the folder, read once: no name in a request becomes a path."""
    from sightline.render.document import CHARTS, STYLE, charts_script

    folder = resources.files("sightline.web") / "static"
    found = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.rpartition(".")[2] in _KINDS}
    return {**found, "shared.css": STYLE.encode(), CHARTS: charts_script().encode()}


_MOST_SECONDS: Final = 60
_PRINT: Final = "from sightline.web.assets import print_bundle; print_bundle()"


@cache
def bundle(version: str) -> bytes:
    """Return the script; ``version`` names those of the packages that it is made of."""
    path = default_place().with_name("page") / f"vega-{version}.js"
    with suppress(OSError):
        return path.read_bytes()
    made = subprocess.run(  # noqa: S603 - this interpreter, and a constant
        [sys.executable, "-c", _PRINT], stdout=subprocess.PIPE, check=True, timeout=_MOST_SECONDS
    ).stdout
    with suppress(OSError):
        write_whole(path, made)
    return made


def print_bundle() -> None:
    """Write the script to standard output."""
    from sightline.render.document import vega_script

    script = vega_script().encode()
    try:
        sys.stdout.buffer.write(script)
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)  # the server has ended meanwhile; the interpreter would complain when it flushes
