"""What launches a scenario, and what a framework's own configuration says when it is read back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sightline.content import fix_mappings
from sightline.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Launch:
    """The command and the files that run a scenario in its framework."""

    framework: str
    """As ``plan.framework`` names it."""
    command: str
    """Shell command, to be run in the folder of the files; on every node where there are several."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Texts by their names relative to the folder."""
    without_counterpart: Sequence[str] = ()
    """Sentences: what of the scenario the framework has no argument for, and what the user has to supply."""

    def __post_init__(self) -> None:
        fix_mappings(self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """A framework's own configuration or command line as a scenario, as far as it says one."""

    framework: str
    """As ``plan.framework`` names it."""
    scenario: Mapping[str, Any]
    """Keys and values of a scenario file."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """What a scenario needs and the source cannot say: dotted key, and what belongs there."""
    assumed: Mapping[str, Any] = field(default_factory=dict)
    """What the source cannot say but a scenario needs, by dotted key: values that are in ``scenario`` all the same."""
    without_counterpart: Sequence[str] = ()
    """Sentences: arguments that no key of a scenario stands for."""
    samples_per_device: int | None = None
    """Samples of a step that each device processes, where the whole batch follows from the number of devices."""

    def __post_init__(self) -> None:
        fix_mappings(self)


def refuse(problems: Sequence[str]) -> None:
    """Raise `InputError` with all problems, if there are any."""
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
