"""What was required of answers, for a pull request."""

from collections.abc import Sequence

from sightline.report import labels
from sightline.report.markdown.text import Answer, Rows, markdown
from sightline.report.pages.profile import scenario_yaml
from sightline.report.pieces import BAD, GOOD, Said
from sightline.report.terminal.requirements import summary
from sightline.requirements.check import Checked

_MARKS = {True: "✅", False: "❌"}


def requirements_markdown(checked: Sequence[Checked], *, command: str = "") -> str:
    """Return a line for each requirement of one scenario, or a table with a line for each scenario of several."""
    scenarios = [one.profile.scenario for one in checked]
    warnings = list(dict.fromkeys(warning for one in checked for warning in one.warnings))[:5]
    title = f"{labels.common_title(scenarios)}: {summary(checked)}"
    if len(checked) > 1:
        return markdown(Answer(title=title, tables=[_compared(checked)], warnings=warnings, command=command))
    (only,) = checked
    return markdown(
        Answer(
            title=title,
            said=[Said(asks=one.require, says=one.sentence, kind=GOOD if one.met else BAD) for one in only.required],
            warnings=warnings,
            scenario=scenario_yaml(only.profile.scenario),
            command=command,
        )
    )


def _compared(checked: Sequence[Checked]) -> Rows:
    """A line for each scenario, with what it does not meet."""
    names = labels.variant_labels([one.profile.scenario for one in checked])
    unmet = ["; ".join(each.sentence for each in one.required if not each.met) for one in checked]
    rows = [(name, _MARKS[one.met], said) for name, one, said in zip(names, checked, unmet, strict=True)]
    return Rows(title="", headings=("scenario", "met", "not met"), rows=rows, most=50)
