"""The built-in studies as a table."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sightline.report.terminal import parts

if TYPE_CHECKING:
    from rich.table import Table


def studies_table(studies: Mapping[str, str]) -> "Table":
    """Return the names of studies with what each asks, which folds where the terminal is narrow."""
    return parts.plain_table(("name", "asks"), rows=list(studies.items()))
