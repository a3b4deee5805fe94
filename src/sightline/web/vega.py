"""Vega, Vega-Lite and Vega-Embed as one script, out of the installed vl-convert.

Putting it together takes a second and 100 MB in a JavaScript engine that lets no other thread work meanwhile, so a
process of its own does it, once for each release; then it is read from a file.
"""

import os
import subprocess
import sys
from contextlib import suppress
from functools import cache
from typing import Final

from sightline.web.jobs.folder import default_place, write_whole

_MOST_SECONDS: Final = 60
_PRINT: Final = "from sightline.web.vega import print_bundle; print_bundle()"


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
    from sightline.report.document_script import vega_script

    script = vega_script().encode()
    try:
        sys.stdout.buffer.write(script)
        sys.stdout.flush()
    except BrokenPipeError:
        os._exit(0)  # the server has ended meanwhile; the interpreter would complain when it flushes
