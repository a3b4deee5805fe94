"""What sources ask for: their scenarios, and the cells of sweeps that cannot be, counted by rule."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from sightline.errors import InputError
from sightline.scenario import Scenario
from sightline.scenario.rules.rulebook import Broken

if TYPE_CHECKING:
    from sightline.scenario import GenerationScenario, OperatorScenario, ServingScenario

Asked: TypeAlias = "Scenario | OperatorScenario | GenerationScenario | ServingScenario"
"""What a scenario file may ask for."""
Cell: TypeAlias = Mapping[str, Any]
"""Values of the swept keys of one scenario, as they were typed; empty without a sweep."""

_MOST_SENTENCES = 8
"""Sentences of impossible cells that are said one by one; of more, one is said for each rule."""


@dataclass(slots=True, kw_only=True, eq=False)
class Loaded:
    """The scenarios of all sources, in order."""

    scenarios: list[Asked] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    """Of each scenario, what a sweep gave it."""
    impossible: list[tuple[Broken, str]] = field(default_factory=list)
    """The first rule that each of the other cells breaks, and the sentence with the file before it."""
    is_list: bool = False
    """Whether a list was asked for: several files, a list, a table, several documents, or a sweep."""

    unmeasured: bool = False
    """Whether a file says what was measured, and a setting or sweep asks about something else."""

    def remarks(self) -> Iterator[str]:
        """Yield what is not compared, and how many cells of the sweep cannot be, and why."""
        if self.unmeasured:
            yield "what the file says was measured is left out: --set or --sweep asks about another scenario"
        yield from self.not_possible()

    def not_possible(self) -> Iterator[str]:
        """Yield how many cells of the sweep cannot be, and why."""
        left_out = len(self.impossible)
        if not left_out:
            return
        counted = f"{left_out:,} of {left_out + len(self.scenarios):,} not possible"
        by_rule = _by_rule(self.impossible)
        if len(by_rule) == 1:
            said = next(iter(by_rule.values()))
            yield f"{counted}{': ' if len(set(said)) == 1 else ', for example: '}{said[0]}"
            return
        yield f"{counted}: {', '.join(f'{len(said):,} by {rule}' for rule, said in by_rule.items())}"
        yield from (f"{rule}: {said[0]}" for rule, said in by_rule.items())

    def raise_if_nothing_is_possible(self) -> None:
        """Raise `InputError` where no cell of the sweep is possible."""
        if self.scenarios or not self.impossible:
            return
        sentences = list(dict.fromkeys(said for _, said in self.impossible))
        if len(sentences) > _MOST_SENTENCES:
            by_rule = _by_rule(self.impossible)
            sentences = [f"{said[0]} (and {len(said) - 1:,} like it)" for said in by_rule.values()]
        raise InputError(sentences)


def _by_rule(impossible: Sequence[tuple[Broken, str]]) -> dict[str, list[str]]:
    """Sentences by the rule that they word, the most frequent rule first."""
    found: dict[str, list[str]] = {}
    for broken, _ in impossible:
        found.setdefault(broken.rule.replace("_", " "), []).append(str(broken))
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def is_impossible(error: InputError) -> bool:
    """Return whether every value of a refused scenario is right by itself, and only rules of plans are broken."""
    return bool(error.problems) and all(isinstance(problem, Broken) for problem in error.problems)
