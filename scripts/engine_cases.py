"""The measurements of published suites that engines' constants are fitted to."""

from collections.abc import Callable, Mapping, Sequence

from engine_fit import EngineSet, MeasuredGeneration, separate_lines

from sightline.catalog.index import release_line
from sightline.loading import generation_from_mapping
from sightline.prediction.generation.policies import price_workers
from sightline.scenario import GenerationScenario
from sightline.validation.cases import Case, Suite, publisher


def _family(scenario: GenerationScenario) -> str:
    """Cases of a model, a device and degrees."""
    plan = scenario.plan
    degrees = f"{plan.tensor_parallel} x {plan.pipeline_parallel}"
    return f"{scenario.model.name} on {degrees} {scenario.cluster.device.name}"


def _sizes(scenario: GenerationScenario) -> str:
    """Cases of the same sizes, where one family has them all."""
    work = scenario.workload
    return f"{work.batch} x {work.prompt_tokens} + {work.output_tokens}"


def _served(scenario: GenerationScenario) -> str:
    """Cases of a model on a number of devices with one length of prompts, as the served runs were split."""
    cluster, work = scenario.cluster, scenario.workload
    return f"{scenario.model.name} on {cluster.devices} {cluster.device.name}, {work.prompt_tokens}"


def _pair(scenario: GenerationScenario) -> str:
    """Cases of a model on a device."""
    return f"{scenario.model.name} on {scenario.cluster.device.name}"


GROUPS: Mapping[str, Callable[[GenerationScenario], str]] = {
    "": lambda _: "",
    "family": _family,
    "sizes": _sizes,
    "served": _served,
}
"""What is left out together, by the word that a set of the manifest has for it."""


def cases_of(of: EngineSet, suites: Sequence[Suite]) -> list[MeasuredGeneration]:
    """Return the fit parts' cases of a set's engine and release lines; suites count alike whatever their size."""
    known = {suite.name: suite for suite in suites}
    cases: list[MeasuredGeneration] = []
    for suite in (known[name] for name in of.suites if name in known):
        chosen = [case for case in suite.cases if case.split == "fit" and _is_of(case, of)]
        cases += [_measured(case, suite, of, weight=1.0 / len(chosen)) for case in chosen]
    return cases


def _measured(case: Case, suite: Suite, of: EngineSet, weight: float) -> MeasuredGeneration:
    scenario = generation_from_mapping(case.scenario)
    return MeasuredGeneration(
        workers=price_workers(scenario),
        quantity=suite.quantity,
        value=case.measured,
        weight=weight,
        group=GROUPS[of.group](scenario),
        pair=_pair(scenario) if of.group == "served" else "",
        sure=case.alternative is None,
        source=publisher(suite.source),
    )


def _is_of(case: Case, of: EngineSet) -> bool:
    """Whether the case counts for the set; an engine's own leaves out the lines that have sets of their own."""
    plan = case.scenario["plan"]
    version = str(plan.get("framework_version", ""))
    others = [*separate_lines(of.engine), *of.left_out]
    chosen = release_line(version, of.lines) if of.lines else not release_line(version, others)
    return plan["framework"] in (of.engine, *of.others) and bool(chosen)
