"""``sightline simulate`` of loads that are too long to keep."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from sightline.cli import output
from sightline.errors import InputError

if TYPE_CHECKING:
    from sightline.prediction.anchoring import Anchored
    from sightline.profile import Profile
    from sightline.progress import Progress
    from sightline.scenario import ServingScenario
    from sightline.simulation.load import Integers
    from sightline.simulation.outcome import Outcome


def streamed(
    scenario: "ServingScenario",
    requests: str | None,
    progress: "Progress",
    *,
    intervals: bool,
    known: "Anchored | None" = None,
) -> "Profile":
    """Return the profile of a load of which no rows are kept; they go to ``requests`` in order of their ends."""
    from sightline.anchors import simulate

    run = partial(simulate, scenario, anchor=known or (), intervals=intervals, streamed=True, progress=progress)
    if requests is None:
        return run()
    try:
        # Beside the file, where there is room for it.
        with TemporaryDirectory(prefix=".sightline-", dir=Path(requests).absolute().parent) as folder:
            pieces = _Pieces(Path(folder))
            profile = run(rows=pieces.write)
            pieces.join(Path(requests))
    except OSError as error:
        raise InputError(f"cannot write '{requests}': {(error.strerror or str(error)).lower()}") from error
    output.print_remark(f"wrote {requests}")
    return profile


class _Pieces:
    """Parquet files of a table's pieces in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written = 0

    def write(self, numbers: "Integers", piece: "Outcome") -> None:
        """Write a piece."""
        from sightline.simulation.results.figures import request_table

        request_table(piece, numbers).write_parquet(self._folder / f"{self._written:08}.parquet", compression="zstd")
        self._written += 1

    def join(self, path: Path) -> None:
        """Write all pieces as one file, none of them as a whole in memory."""
        import polars

        if self._written:
            whole = self._folder / "whole"
            polars.scan_parquet(self._folder / "*.parquet").sink_parquet(whole, compression="zstd")
            whole.replace(path)
