"""``sightline measure --suite 2311.03687``: a study's grid on the machine at hand, and its report."""

from typing import TYPE_CHECKING, Any

from sightline.cli import output
from sightline.cli.measure_options import MeasureOptions

if TYPE_CHECKING:
    from sightline.measurement.studies.runs import MeasuredCell
    from sightline.report.study import Answered
    from sightline.runs import Store


def measure_study(store: "Store", options: MeasureOptions) -> None:
    """Measure the grid, write its report and print its tables."""
    from sightline.measurement.machine.devices import hardware_at_hand
    from sightline.measurement.studies.arxiv_2311_03687 import STUDY, study_tables
    from sightline.measurement.studies.runs import measure_study as measured_cells
    from sightline.report.study import study_page, study_terminal, study_to_list

    hardware = hardware_at_hand()
    tables = study_tables(hardware, quick=options.quick)
    total = sum(len(table.cells) for table in tables)
    answered: dict[str, list[Answered]] = {table.name: [] for table in tables}
    with output.progress(total, "measuring", least=2) as advance:
        for cell in measured_cells(tables, store, quick=options.quick, rerun=options.rerun):
            answered[cell.table.name].append(_answered(cell, store))
            advance()
    study = [(table, answered[table.name]) for table in tables]
    if options.html is not None:
        title = f"The study of arXiv {STUDY} on {hardware.cluster(hardware.count)}"
        output.write_file(options.html, study_page(title, _machine(), study))
        output.print_remark(f"written: {options.html}")
    if options.as_json:
        output.print_json(study_to_list(study))
    else:
        output.print_table(study_terminal(study))


def _answered(cell: "MeasuredCell", store: "Store") -> "Answered":
    """A cell's figures, its prediction's beside them and, at module level, the two compared."""
    from sightline.errors import InputError
    from sightline.explanation.comparison import compare
    from sightline.prediction import predict
    from sightline.profile.results import flatten, profile_to_dict
    from sightline.report.study import Answered

    predicted: dict[str, Any] = {}
    if cell.scenario is not None:
        try:
            predicted = flatten(profile_to_dict(predict(cell.scenario)))
        except InputError as error:
            output.print_remark(f"not predicted: {cell.cell.row}, {cell.cell.column}: {'; '.join(error.problems)}")
    done = cell.status == "ok"
    compared = done and predicted and cell.table.level != "end-to-end"
    return Answered(
        cell=cell.cell,
        status=cell.status,
        reason=cell.reason,
        measured=flatten(cell.run.result) if done else {},
        predicted=predicted,
        shimmed=done and bool(cell.run.result["measurement"].get("shimmed")),
        comparison=compare(cell.run.id, "predicted", levels=("phase", "module"), store=store.place)
        if compared
        else None,
    )


def _machine() -> list[str]:
    """Sentences about what the study ran on."""
    from sightline.measurement.machine.record import record_environment

    environment = record_environment()
    gpus, cpu = environment["gpus"], environment["cpu"]
    kinds = ", ".join(dict.fromkeys(str(gpu["name"]) for gpu in gpus))
    what = f"{len(gpus)} x {kinds}" if gpus else f"{cpu['model']}, {cpu['cores']} cores"
    return [what, ", ".join(f"{name} {version}" for name, version in environment["libraries"].items())]
