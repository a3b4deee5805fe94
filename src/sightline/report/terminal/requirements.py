"""What was required of answers, for a terminal: a sentence for each, and how many scenarios meet everything."""

from collections.abc import Iterator, Sequence

from sightline.quantities import counted
from sightline.report import labels
from sightline.requirements.check import Checked


def requirements_text(checked: Sequence[Checked]) -> Iterator[str]:
    """Yield the sentences of each scenario below its name, each on one line, as logs are searched for them."""
    scenarios = [one.profile.scenario for one in checked]
    for name, one in zip(labels.variant_labels(scenarios), checked, strict=True):
        yield "\n".join((name, *one.sentences))
    if len(checked) > 1:
        yield summary(checked)


def summary(checked: Sequence[Checked]) -> str:
    """Return how many scenarios, or of one how many requirements, are as they have to be."""
    if len(checked) > 1:
        met = sum(one.met for one in checked)
        return f"{met:,} of {counted(len(checked), 'scenario')} {'meets' if met == 1 else 'meet'} everything required"
    (only,) = checked
    met = sum(one.met for one in only.required)
    return f"{met} of {counted(len(only.required), 'requirement')} {'is' if met == 1 else 'are'} met"
