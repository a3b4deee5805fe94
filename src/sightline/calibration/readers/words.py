"""What tables call number formats, caches and collectives, with our names; and headings that some of them lack."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

WORDS: Mapping[str, Mapping[Any, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
PROGRAMS: Mapping[str, str] = WORDS["programs"]
"""The collective that a program of nccl-tests times."""
