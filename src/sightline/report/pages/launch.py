"""What runs a plan: the command and the files of the first plan that its framework can run."""

from sightline.errors import InputError
from sightline.launching import Launch, write
from sightline.planning.answer import PlanAnswer, RankedPlan
from sightline.report import pieces
from sightline.report.pieces import Piece


def launch_piece(answer: PlanAnswer) -> Piece:
    """Return the launch of the first plan that can be launched; empty where none can."""
    found = first_launch(answer)
    if found is None:
        return Piece()
    from sightline.launching.launch import SCRIPT, script_of

    one, launch = found
    files = {SCRIPT: script_of(launch), **launch.files}
    return pieces.section(
        f"Run plan {one.rank} with {launch.framework}",
        *(
            pieces.folded(name, pieces.text(text, name, file=name), is_open=name == SCRIPT)
            for name, text in files.items()
        ),
    )


def first_launch(answer: PlanAnswer) -> tuple[RankedPlan, Launch] | None:
    """Return the first plan that its framework can run and how it is launched; None where there is none."""
    for one in answer.plans:
        if one.launchable:
            try:
                return one, write(one.profile.scenario)
            except InputError:
                continue
    return None
