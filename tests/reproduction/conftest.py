"""What tests of findings share: the number that the ledger judges."""

import pytest

from sightline.reproduction import reproduce
from sightline.reproduction.reproduce import SOURCES


@pytest.fixture(scope="session")
def ours():
    """The judged number of a finding, such as ``finetuning.a18``, in each of its interpretations."""
    findings = {id_: finding for source in SOURCES for id_, finding in reproduce.read(source).items()}

    def of(answers, ask):
        finding = findings[answers.__name__.upper()]
        return [finding.worst(one.values) for one in answers(ask)]

    return of
