"""What the launches that are written can run: rules beside those of a plan, by which a search leaves plans out."""

from sightline.launching.training.rules import equal_devices, megatron, scripts, torchtitan
from sightline.loading.plan import OFFERED
from sightline.scenario import Scenario
from sightline.scenario.rules import facts_of
from sightline.scenario.rules.rulebook import Broken, Rule, broken_rules, rules_of

LAUNCH_RULES: tuple[Rule, ...] = tuple(
    rule for module in (equal_devices, megatron, torchtitan, scripts) for rule in rules_of(module)
)
"""What a launch can run, each rule for the frameworks that it names. They say nothing of a framework for which no
launch is written."""


def refusals(scenario: Scenario) -> list[Broken]:
    """Return a sentence for all of a scenario that its framework does not offer or its launch cannot run."""
    return list(broken_rules((*OFFERED, *LAUNCH_RULES), facts_of(scenario)))
