"""``python -m sightline`` is the command line."""

import sys

from sightline.cli.main import run

sys.exit(run())
