"""The report of a roofline: which matmuls of a layer arithmetic bounds and which memory."""

from collections.abc import Iterator, Sequence

from sightline.prediction.roofline_table import RooflineTable
from sightline.report import pieces, units
from sightline.report.document import document
from sightline.report.pages.charts import charts_piece
from sightline.report.pieces import Piece, Said
from sightline.report.terminal.analysis import ridges, shape

COLUMNS = ("matmul", "phase", "batch, m, n, k", "FLOP/byte", "bound", "roofline", "predicted")
_RIGHT = (False, False, True, True, False, True, True)
Named = Sequence[tuple[str, RooflineTable]]


def roofline_page(named: Named, *, command: str = "") -> str:
    """Return the report of tables with their scenarios' names as one page; ``command`` asked for it."""
    title = "Matmuls of a layer on the roofline"
    return document(title, pieces.joined(pieces.headline(title), roofline_piece(named)), command=command)


def roofline_piece(named: Named) -> Piece:
    """Return what stands on the page of a roofline."""
    lines = list(short_answer(named))
    return pieces.joined(
        pieces.short_answer(lines),
        charts_piece(list(named), "; ".join(f"{line.asks}: {line.says}" for line in lines)),
        *(
            pieces.section(
                _name(name, table), pieces.table(COLUMNS, rows_of(table), label=_name(name, table), numbers=_RIGHT)
            )
            for name, table in named
        ),
    )


def short_answer(named: Named) -> Iterator[Said]:
    """Yield for each table and phase how many matmuls are bound by what."""
    for name, table in named:
        for phase in dict.fromkeys(row.phase for row in table.rows):
            bounds = [row.bound for row in table.rows if row.phase == phase]
            counts = ", ".join(f"{bounds.count(bound)} bound by {bound}" for bound in dict.fromkeys(bounds))
            edge = f"; ridge {ridges(table)} FLOP/byte"
            yield Said(asks=phase, says=f"{_name(name, table)}: {len(bounds)} matmuls, {counts}{edge}")


def rows_of(table: RooflineTable) -> list[tuple[str, ...]]:
    """Return the cells of each matmul under `COLUMNS`."""
    return [
        (
            row.matmul,
            row.phase,
            shape(row),
            units.digits(row.intensity),
            row.bound,
            units.seconds(row.roofline_s),
            units.seconds(row.predicted_s),
        )
        for row in table.rows
    ]


def _name(name: str, table: RooflineTable) -> str:
    device = table.scenario.cluster.device.name
    return name if device in name else f"{name} on {device}"
